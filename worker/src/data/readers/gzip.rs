//! gzip streams: one or several members, and what stands behind them is counted, not called a cut.

use flate2::bufread::GzDecoder;
use std::fmt;
use std::io::{self, BufRead, ErrorKind, Read};

/// A file of gzip members, unpacked one after another.
pub(super) struct Gzip<R> {
    /// None behind the last one.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gzip<R> {
    /// Unpacks `packed`, which begins with a member.
    pub(super) fn new(packed: R) -> Gzip<R> {
        Gzip { member: Some(GzDecoder::new(packed)) }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut member) = self.member.take() {
            let n = member.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                self.member = Some(member);
                return Ok(n);
            }
            let mut rest = member.into_inner();
            match rest.fill_buf()? {
                [] => {}
                // the first byte of a member's header; whether the rest is one, the decoder says
                [0x1f, ..] => self.member = Some(GzDecoder::new(rest)),
                _ => {
                    let bytes = io::copy(&mut rest, &mut io::sink())?;
                    return Err(io::Error::new(ErrorKind::InvalidData, Behind(bytes)));
                }
            }
        }
        Ok(0)
    }
}

/// So many bytes follow the last member, and are none.
#[derive(Debug)]
pub(super) struct Behind(u64);

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes behind the end of the gzip stream; cut them off, or fetch the file again", self.0)
    }
}

impl std::error::Error for Behind {}
