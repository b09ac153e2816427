"""The arrows of a sheet: none but proven ones, and what is worked out on their ways and stands in no box."""
