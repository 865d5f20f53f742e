//! Retouching of frames before they are encoded: the watermark and the label. It also takes the
//! film's fingerprint, from the frames as they are encoded.

use animatic::FramePlanes;
use provenance::fingerprint::video::VideoPrint;
use provenance::watermark::VideoEmbedder;
use serde::{Deserialize, Serialize};

use crate::engines::label::AiLabel;
use crate::origin::WatermarkPayload;

/// The changes to make to a film's frames.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct RetouchOptions {
    pub mark: Option<WatermarkPayload>,
    pub label: bool,
}

pub(super) struct FrameRetoucher {
    embedder: Option<VideoEmbedder>,
    label: Option<AiLabel>,
    fps: u32,
    pub(super) print: VideoPrint,
}

impl FrameRetoucher {
    pub(super) fn new(options: RetouchOptions, width: u32, height: u32, fps: u32) -> Self {
        let embedder = options.mark.and_then(|mark| {
            let embedder = VideoEmbedder::new(
                &mark.key.key()?,
                mark.media_id,
                width as usize,
                height as usize,
            );
            // Not expected: every size that is offered can be marked.
            embedder
                .inspect_err(|error| tracing::error!(%error, "cannot add a watermark to a video"))
                .ok()
        });
        Self {
            embedder,
            label: options
                .label
                .then(|| AiLabel::new(width as usize, height as usize))
                .flatten(),
            fps: fps.max(1),
            print: VideoPrint::default(),
        }
    }

    pub(super) fn retouch(&mut self, frame: u32, planes: &mut FramePlanes<'_>) {
        if frame == 0 {
            // The film may be encoded a second time, from its first frame on.
            self.print = VideoPrint::default();
        }
        if let Some(embedder) = &mut self.embedder
            && let Err(error) = embedder.mark(planes.luma, planes.width)
        {
            tracing::error!(%error, "cannot add a watermark to a video");
            self.embedder = None;
        }
        if let Some(label) = &self.label {
            label.draw(planes);
        }
        if frame.is_multiple_of(self.fps) {
            let (width, height) = (planes.width, planes.height);
            // A film that is too long or too small has no fingerprint.
            let _ = self.print.add(planes.luma, width, height, width);
        }
    }

    pub(super) fn is_marked(&self) -> bool {
        self.embedder.is_some()
    }
}
