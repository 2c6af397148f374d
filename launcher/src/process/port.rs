//! A TCP port that no one else gets until the program of rank 0 binds it.

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket, sockopt::ReuseAddr,
};
use std::os::fd::{AsRawFd, OwnedFd};

/// A port held by being bound but not listening: with SO_REUSEADDR on both sides, as PyTorch's store sets it, a
/// program can bind and listen on it, while the kernel gives it to no one who asks for any free port.
#[derive(Debug)]
pub struct HeldPort {
    _socket: OwnedFd,
    /// Its number.
    pub number: u16,
}

impl HeldPort {
    /// Takes a free port of the loopback address.
    pub fn take() -> std::io::Result<HeldPort> {
        let held = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&held, ReuseAddr, &true)?;
        bind(held.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0))?;
        let number = getsockname::<SockaddrIn>(held.as_raw_fd())?.port();
        Ok(HeldPort { _socket: held, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, listen};

    #[test]
    fn a_program_can_listen_on_a_held_port() {
        let held = HeldPort::take().unwrap();
        let program = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&program, ReuseAddr, &true).unwrap();
        bind(program.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, held.number)).unwrap();
        listen(&program, Backlog::new(1).unwrap()).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", held.number)).unwrap();
    }
}
