//! Where the numbers are given out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Reads `--metrics-addr`: a bare port, as `9400` or `:9400`, is one of the loopback address; another address must be
/// written out.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
    let local = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let port = text.strip_prefix("localhost:").or(text.strip_prefix(':')).unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(local(port));
    }
    text.parse().map_err(|_| {
        format!(
            "{text:?} is no address: use a port, as 9400, or an address with a port, as 192.168.1.2:9400 or [::1]:9400"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_what_is_written_out_leaves_the_host() {
        for (text, meant) in [
            ("9400", "127.0.0.1:9400"),
            (":9400", "127.0.0.1:9400"),
            ("localhost:0", "127.0.0.1:0"),
            ("0.0.0.0:9400", "0.0.0.0:9400"),
            ("[::1]:9400", "[::1]:9400"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), meant);
        }
        for wrong in ["", "65536", "-1", "host:80", "1.2.3.4", "::1:x", "9400 "] {
            assert!(parse(wrong).unwrap_err().contains("as 9400"), "{wrong}");
        }
    }
}
