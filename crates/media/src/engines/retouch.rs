//! The last change of a film's frames before they are encoded: the watermark and the label. Takes
//! the film's fingerprint on the way, from the frames as they are encoded.

use animatic::Planes;
use provenance::fingerprint::video::VideoPrint;
use provenance::watermark::Embedder;
use serde::{Deserialize, Serialize};

use crate::engines::label::Label;
use crate::origin::Marking;

/// What is done to a film.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Touch {
    pub mark: Option<Marking>,
    pub label: bool,
}

pub(super) struct Retoucher {
    embedder: Option<Embedder>,
    label: Option<Label>,
    fps: u32,
    pub(super) print: VideoPrint,
}

impl Retoucher {
    pub(super) fn new(touch: Touch, width: u32, height: u32, fps: u32) -> Self {
        let embedder = touch.mark.and_then(|mark| {
            let made = Embedder::new(
                &mark.key.key()?,
                mark.media_id,
                width as usize,
                height as usize,
            );
            // Every offered size can be marked.
            made.inspect_err(|error| tracing::error!(%error, "no watermark"))
                .ok()
        });
        Self {
            embedder,
            label: touch
                .label
                .then(|| Label::new(width as usize, height as usize))
                .flatten(),
            fps: fps.max(1),
            print: VideoPrint::default(),
        }
    }

    pub(super) fn touch(&mut self, frame: u32, planes: &mut Planes<'_>) {
        if frame == 0 {
            // It may be encoded a second time.
            self.print = VideoPrint::default();
        }
        if let Some(embedder) = &mut self.embedder
            && let Err(error) = embedder.mark(planes.luma, planes.width)
        {
            tracing::error!(%error, "no watermark");
            self.embedder = None;
        }
        if let Some(label) = &self.label {
            label.draw(planes);
        }
        if frame.is_multiple_of(self.fps) {
            let (width, height) = (planes.width, planes.height);
            // Too long or too small a film has no print.
            let _ = self.print.add(planes.luma, width, height, width);
        }
    }

    pub(super) fn is_marked(&self) -> bool {
        self.embedder.is_some()
    }
}
