//! Event files for TensorBoard: TFRecord frames around `Event` messages with scalar summaries.
//!
//! A record is `u64 length, u32 masked crc of the length, bytes, u32 masked crc of the bytes`, little-endian; the
//! checksum is CRC-32C, rotated and offset (`tensorflow/core/lib/hash/crc32c.h`). Of the messages
//! (`tensorflow/core/util/event.proto`, `summary.proto`) only the fields used here are encoded:
//!
//! ```text
//! Event   { 1: double wall_time, 2: int64 step, 3: string file_version | 5: Summary summary }
//! Summary { repeated 1: Value { 1: string tag, 2: float simple_value } }
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A part of the name of every file that this writer makes.
pub const MARK: &str = "foxlaunch";

/// One named value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar<'a> {
    /// Its tag in TensorBoard.
    pub name: &'a str,
    /// Its value.
    pub value: f32,
}

/// Writes one event file.
#[derive(Debug)]
pub struct EventWriter {
    file: BufWriter<File>,
}

impl EventWriter {
    /// A new file in `folder`, which is made.
    pub fn create(folder: &Path) -> io::Result<EventWriter> {
        std::fs::create_dir_all(folder)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // TensorBoard takes any name with `tfevents` in it and reads them in order
        let name = format!("events.out.tfevents.{}.{MARK}.{}", now.as_secs(), std::process::id());
        let mut writer = EventWriter { file: BufWriter::new(File::create(folder.join(name))?) };
        let mut event = Vec::new();
        put_f64(&mut event, 1, wall_time());
        put_bytes(&mut event, 3, b"brain.Event:2");
        writer.frame(&event)?;
        Ok(writer)
    }

    /// Writes `scalars` at `step`.
    pub fn write(&mut self, step: i64, scalars: &[Scalar<'_>]) -> io::Result<()> {
        let mut summary = Vec::new();
        for scalar in scalars {
            let mut value = Vec::new();
            put_bytes(&mut value, 1, scalar.name.as_bytes());
            put_f32(&mut value, 2, scalar.value);
            put_bytes(&mut summary, 1, &value);
        }
        let mut event = Vec::new();
        put_f64(&mut event, 1, wall_time());
        put_varint(&mut event, 2 << 3);
        put_varint(&mut event, step as u64);
        put_bytes(&mut event, 5, &summary);
        self.frame(&event)
    }

    /// Brings everything to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn frame(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = (bytes.len() as u64).to_le_bytes();
        self.file.write_all(&length)?;
        self.file.write_all(&masked(crc32c(&length)).to_le_bytes())?;
        self.file.write_all(bytes)?;
        self.file.write_all(&masked(crc32c(bytes)).to_le_bytes())
    }
}

fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A length-delimited field (wire type 2).
fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A 64-bit field (wire type 1).
fn put_f64(out: &mut Vec<u8>, field: u64, value: f64) {
    put_varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A 32-bit field (wire type 5).
fn put_f32(out: &mut Vec<u8>, field: u64, value: f32) {
    put_varint(out, field << 3 | 5);
    out.extend_from_slice(&value.to_le_bytes());
}

/// CRC-32C (Castagnoli), reflected polynomial 0x82F63B78.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0u32; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(!0u32, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize])
}

/// The checksum as records hold it.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32C bit by bit, most significant bit first over reversed bits: another road than the table.
    fn crc_by_bits(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in bytes {
            crc ^= u32::from(byte.reverse_bits()) << 24;
            for _ in 0..8 {
                crc = if crc >> 31 == 1 { (crc << 1) ^ 0x1EDC_6F41 } else { crc << 1 };
            }
        }
        (!crc).reverse_bits()
    }

    /// Splits a file into records, checking both checksums of each.
    fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let unmask = |m: &[u8]| u32::from_le_bytes(m.try_into().unwrap()).wrapping_sub(0xA282_EAD8).rotate_left(15);
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert_eq!(unmask(&bytes[8..12]), crc_by_bits(&bytes[..8]));
            let body = &bytes[12..12 + length];
            assert_eq!(unmask(&bytes[12 + length..16 + length]), crc_by_bits(body));
            found.push(body.to_vec());
            bytes = &bytes[16 + length..];
        }
        found
    }

    #[derive(Debug, PartialEq)]
    enum Field {
        Number(u64),
        Double(f64),
        Float(f32),
        Bytes(Vec<u8>),
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    /// The fields of one message, as (number, value).
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Field)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let take = |n: usize, bytes: &mut &[u8]| {
                let (head, rest) = bytes.split_at(n);
                *bytes = rest;
                head.to_vec()
            };
            let value = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Double(f64::from_le_bytes(take(8, &mut bytes).try_into().unwrap())),
                2 => {
                    let n = varint(&mut bytes) as usize;
                    Field::Bytes(take(n, &mut bytes))
                }
                5 => Field::Float(f32::from_le_bytes(take(4, &mut bytes).try_into().unwrap())),
                other => panic!("wire type {other}"),
            };
            found.push((key >> 3, value));
        }
        found
    }

    #[test]
    fn the_checksum_is_castagnoli_s() {
        // RFC 3720, appendix B.4
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn another_decoder_reads_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = EventWriter::create(folder.path()).unwrap();
        writer.write(300, &[Scalar { name: "loss", value: 0.25 }, Scalar { name: "q", value: -1.5 }]).unwrap();
        writer.write(1 << 40, &[Scalar { name: "loss", value: 0.125 }]).unwrap();
        writer.flush().unwrap();
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        assert!(file.file_name().to_string_lossy().contains("tfevents"));
        let events: Vec<_> = records(&std::fs::read(file.path()).unwrap()).iter().map(|r| fields(r)).collect();
        assert_eq!(events.len(), 3);
        assert!(matches!(events[0][0], (1, Field::Double(t)) if t > 1e9));
        assert_eq!(events[0][1], (3, Field::Bytes(b"brain.Event:2".to_vec())));
        assert_eq!(events[1][1], (2, Field::Number(300)));
        assert_eq!(events[2][1], (2, Field::Number(1 << 40)));
        let (5, Field::Bytes(summary)) = &events[1][2] else { panic!("no summary") };
        let values: Vec<_> = fields(summary)
            .into_iter()
            .map(|(number, value)| match (number, value) {
                (1, Field::Bytes(value)) => fields(&value),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(values[0], [(1, Field::Bytes(b"loss".to_vec())), (2, Field::Float(0.25))]);
        assert_eq!(values[1], [(1, Field::Bytes(b"q".to_vec())), (2, Field::Float(-1.5))]);
    }
}
