//! `/v1/…`.

mod chat;
