//! What holds of a registration and of the roll, whatever comes.
