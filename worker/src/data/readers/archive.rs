//! Zip archives: their members are read one after another, as if each were a file.

use super::file;
use super::intake::Collector;
use crate::data::{DataError, Place};
use std::io::{Read, Seek};
use std::path::PathBuf;

/// Reads every member of the archive `whole`.
pub(super) fn read(whole: impl Read + Seek, collector: &mut Collector) -> Result<(), DataError> {
    let damaged = |collector: &Collector, error: &dyn std::fmt::Display| {
        collector.refused(Place::File, format!("the zip archive is damaged or cannot be read: {error}"))
    };
    let mut archive = zip::ZipArchive::new(whole).map_err(|e| damaged(collector, &e))?;
    let mut members = 0;
    for at in 0..archive.len() {
        let member = archive.by_index(at).map_err(|e| damaged(collector, &e))?;
        let name = member.name().map_err(|e| damaged(collector, &e))?.into_owned();
        if member.is_dir() || name.starts_with("__MACOSX/") {
            continue;
        }
        members += 1;
        collector.member = Some(name.clone());
        file::content(member, &PathBuf::from(&name), collector)?;
        collector.member = None;
    }
    if members == 0 {
        return Err(collector.refused(Place::File, "it is a zip archive with nothing in it"));
    }
    collector.what.notes.push(format!("a zip archive of {members} files"));
    Ok(())
}
