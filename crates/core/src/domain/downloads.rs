//! Download names of files, such as `song – Vocals.flac`; and the archive of a song's stems, to
//! download them together.

use std::collections::HashMap;

use crate::app::Ctx;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, AssetId, ClipId};
use mediagate_model::media::{Asset, MediaType};
use mediagate_model::music::{Clip, ClipOrigin};
use mediagate_store as store;
use mediagate_store::clips::RecordingName;

/// Longest title in a file's name, in characters; file systems take about 250 bytes.
const MAX_TITLE_CHARS: usize = 80;

/// A recording's name, made of its song and stem, without extension; `None` if no clip has it.
pub async fn name_of(app: &Ctx, recording: AssetId) -> Result<Option<String>, Error> {
    let read = app
        .store
        .read(move |conn| store::clips::recording_name(conn, recording));
    Ok(read.await?.map(|recording| file_name(&recording)))
}

/// A name that is valid on every file system.
fn file_name(recording: &RecordingName) -> String {
    let song = recording.song.as_deref().unwrap_or(&recording.title);
    let song = safe_name(song);
    match recording.target {
        Some(target) => format!("{song} – {}", safe_name(&target.name().replace('_', " "))),
        None => song,
    }
}

fn safe_name(text: &str) -> String {
    let is_bad = |c: char| c.is_control() || "\\/:*?\"<>|".contains(c);
    let text: String = text
        .chars()
        .map(|c| if is_bad(c) { ' ' } else { c })
        .collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(MAX_TITLE_CHARS).collect();
    // Windows allows no dot at the end, and a leading one hides a file.
    let text = text.trim_matches(|c: char| c == '.' || c == ' ');
    if text.is_empty() {
        "Untitled".to_owned()
    } else {
        text.to_owned()
    }
}

/// A file of an archive.
pub struct ArchiveMember {
    /// With its extension; unique in the archive.
    pub name: String,
    pub asset: Asset,
}

/// The stems of a clip's newest separation or, if the clip is a stem, those of the same separation;
/// and the name of the archive, without an extension.
pub async fn stems(
    app: &Ctx,
    account: AccountId,
    id: ClipId,
) -> Result<(String, Vec<ArchiveMember>), Error> {
    let read = app.store.read(move |conn| -> Result<_, Error> {
        let Some(clip) = store::clips::by_id(conn, id, account)? else {
            return Err(super::music::clip_not_found());
        };
        let stems = stems_of(conn, &clip)?;
        let mut files = Vec::with_capacity(stems.len());
        for media in stems.iter().filter_map(|stem| stem.media) {
            let asset = store::assets::by_id(conn, media.audio)?;
            files.extend(asset.zip(store::clips::recording_name(conn, media.audio)?));
        }
        Ok((clip.title, files))
    });
    let (title, files) = read.await?;
    let now = app.clock.now();
    // An expired file exists until upkeep removes it, but is no longer served.
    let is_kept = |asset: &Asset| {
        asset.removed_at.is_none() && asset.expires_at.is_none_or(|expires| expires > now)
    };
    let files: Vec<(Asset, RecordingName)> = files
        .into_iter()
        .filter(|(asset, _)| is_kept(asset))
        .collect();
    let Some((_, first)) = files.first() else {
        let message = "The clip has no complete stems that are still stored.";
        return Err(Error::plain(ErrorCode::ClipNotReady, message));
    };
    let song = safe_name(first.song.as_deref().unwrap_or(&title));
    Ok((format!("{song} – stems"), members(files)))
}

fn stems_of(conn: &mut store::Conn<'_>, clip: &Clip) -> Result<Vec<Clip>, Error> {
    let (source, task) = match clip.origin {
        ClipOrigin::Stem { source, task, .. } => (source, Some(task)),
        ClipOrigin::Upload | ClipOrigin::Song { .. } => {
            let newest = store::clips::newest_separation(conn, clip.id, clip.account)?;
            (clip.id, newest)
        }
    };
    let Some(task) = task else {
        return Ok(Vec::new());
    };
    Ok(store::clips::stems_of(conn, source, clip.account, task)?)
}

fn members(files: Vec<(Asset, RecordingName)>) -> Vec<ArchiveMember> {
    let mut used: HashMap<String, u32> = HashMap::new();
    let members = files.into_iter().map(|(asset, recording)| {
        let name = file_name(&recording);
        let count = used.entry(name.clone()).or_default();
        *count += 1;
        // `safe_name` can turn two titles into the same name, and an archive must not hold a
        // name twice.
        let suffix = match count {
            1 => String::new(),
            count => format!(" ({count})"),
        };
        let extension = MediaType::extension(asset.media);
        ArchiveMember {
            name: format!("{name}{suffix}.{extension}"),
            asset,
        }
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for (text, expected) in [
            ("Night ferry", "Night ferry"),
            ("AC/DC: \"live\"?\u{7}", "AC DC live"),
            ("../../etc", "etc"),
            ("", "Untitled"),
            ("...", "Untitled"),
            ("Für Elise", "Für Elise"),
        ] {
            assert_eq!(safe_name(text), expected, "{text:?}");
        }
        assert_eq!(safe_name(&"ä".repeat(300)).chars().count(), MAX_TITLE_CHARS);
    }
}
