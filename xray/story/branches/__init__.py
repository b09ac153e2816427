"""What hangs on a residual stream: attentions, feed-forwards, experts, convolutions, states, read off their steps."""
