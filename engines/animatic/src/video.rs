//! The finished video, with the few frames kept of it for thumbnails and previews.

use crate::error::RenderError;
use crate::picture::{Picture, WriteError};
use crate::plan::PromptReading;
use crate::render::opaque;

/// A finished video.
#[derive(Debug, Clone)]
pub struct Video {
    /// The file: H.264 in MP4, the index before the media data.
    pub mp4: Vec<u8>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames per second.
    pub fps: u32,
    /// Number of frames.
    pub frames: u32,
    /// Length in seconds: `frames / fps`, exactly what the file says.
    pub seconds: f64,
    /// How the prompt was understood.
    pub reading: PromptReading,
    pub(crate) poster: Picture,
    pub(crate) stills: Vec<Picture>,
}

impl Video {
    /// The first frame at full size.
    pub fn poster(&self) -> &Picture {
        &self.poster
    }

    /// Frames spread evenly from the first to the last, [`STILLS`] of them (fewer only when the
    /// video has fewer frames), [`STILL_WIDTH`] pixels wide.
    pub fn stills(&self) -> &[Picture] {
        &self.stills
    }

    /// The stills in one picture, [`SHEET_COLUMNS`] to a row, left to right and top to bottom.
    pub fn sheet(&self) -> Picture {
        let Some(first) = self.stills.first() else {
            return self.poster.clone();
        };
        let columns = (SHEET_COLUMNS as usize).min(self.stills.len());
        let rows = self.stills.len().div_ceil(columns);
        let (tile_bytes, tile_rows) = (first.width() as usize * 3, first.height() as usize);
        let mut rgb = vec![0; tile_bytes * columns * tile_rows * rows];
        for (i, still) in self.stills.iter().enumerate() {
            let (column, row) = (i % columns, i / columns);
            for (line, source) in still.rgb().chunks_exact(tile_bytes).enumerate() {
                let start = ((row * tile_rows + line) * columns + column) * tile_bytes;
                rgb[start..start + tile_bytes].copy_from_slice(source);
            }
        }
        let width = u32::try_from(columns).unwrap_or(1) * first.width();
        let height = u32::try_from(rows).unwrap_or(1) * first.height();
        Picture::from_rgb(width, height, rgb).unwrap_or_else(|| self.poster.clone())
    }

    /// The poster as a JPEG file.
    pub fn poster_jpeg(&self) -> Result<Vec<u8>, WriteError> {
        self.poster.to_jpeg(JPEG_QUALITY)
    }

    /// The sheet as a JPEG file.
    pub fn sheet_jpeg(&self) -> Result<Vec<u8>, WriteError> {
        self.sheet().to_jpeg(JPEG_QUALITY)
    }
}

/// How many stills are kept of a video.
pub const STILLS: u32 = 16;

/// Width of a still in pixels; its height follows the video's shape.
pub const STILL_WIDTH: u32 = 320;

/// Stills in a row of the sheet.
pub const SHEET_COLUMNS: u32 = 4;

/// Collects the poster and the stills while frames are drawn.
pub(crate) struct StillCollector {
    frames: u32,
    poster: Option<Picture>,
    /// Each with the number of its frame.
    stills: Vec<(u32, Picture)>,
}

impl StillCollector {
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            frames,
            poster: None,
            stills: Vec::new(),
        }
    }

    /// Whether a copy of this frame is to be kept as a still.
    pub(crate) fn wants_still(&self, frame: u32) -> bool {
        let count = STILLS.min(self.frames);
        (0..count).any(|k| k * (self.frames - 1) / (count - 1).max(1) == frame)
    }

    pub(crate) fn keep_poster(
        &mut self,
        (width, height): (u32, u32),
        rgba: &[u8],
    ) -> Result<(), RenderError> {
        self.poster = Some(opaque(width, height, rgba)?);
        Ok(())
    }

    pub(crate) fn keep_still(&mut self, frame: u32, still: Picture) {
        self.stills.push((frame, still));
    }

    /// The poster and the stills; `None` if no frame was drawn.
    pub(crate) fn take(mut self) -> Option<(Picture, Vec<Picture>)> {
        self.stills.sort_by_key(|(frame, _)| *frame);
        let stills = self.stills.into_iter().map(|(_, still)| still);
        Some((self.poster?, stills.collect()))
    }
}

const JPEG_QUALITY: u8 = 88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stills_are_spread_from_the_first_frame_to_the_last() {
        for frames in [1, 2, 15, 16, 17, 24, 150, 600] {
            let collector = StillCollector::new(frames);
            let kept: Vec<u32> = (0..frames).filter(|f| collector.wants_still(*f)).collect();
            assert_eq!(kept.len(), STILLS.min(frames) as usize, "{frames}");
            assert_eq!((kept[0], kept[kept.len() - 1]), (0, frames - 1), "{frames}");
        }
    }
}
