//! What launcher and worker say to each other ([`message`]) and how it is framed ([`wire`]).
//!
//! The order of a normal life: the worker connects to the channel named in `FOXLAUNCH_CHANNEL` and sends
//! `Hello`; when all have, the launcher sends each `Welcome`; the workers form their collective and send
//! `Ready`; then `Progress` as often as they like; `Bye` comes last.

pub mod message;
pub mod wire;

pub use message::{ArenaPlace, CommId, Display, Fault, FromLauncher, FromWorker, Hello, Phase, Transport};
pub use wire::{Envelope, WireError};
