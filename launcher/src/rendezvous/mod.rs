//! How workers and launcher meet: a channel for each worker ([`listener`]) and the count of who has come
//! ([`roll_call`]).

pub mod listener;
pub mod roll_call;
