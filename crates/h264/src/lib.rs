//! The H.264 encoder of films: frames in, an Annex B stream out.
//!
//! It owns: `OpenH264`'s settings, our differences to its sources (`build.rs`, `native/`), the pyramid
//! of frames, and the layout of a frame. It must not know: pictures, prompts, MP4, how a quantiser is
//! chosen. `animatic` does all that.
//!
//! It is a crate of its own so that all C++ that we change can be built with the compiler's checks of
//! addresses, without the rest of a film: `scripts/test memory`.
//!
//! Begin at [`Encoder`].

mod encoder;
mod frame;

pub use encoder::{Encoder, EncoderError, PYRAMID, StreamFormat};
pub use frame::{FramePlanes, I420Frame};
