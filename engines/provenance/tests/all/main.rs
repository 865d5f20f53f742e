//! What the crate promises, by its public functions, on files of our own and of others.

mod credentials;
mod elsewhere;
mod hostile;
mod nested;
mod stamped;
mod stores;
