//! The H.264 encoder of films: frames in, an Annex B stream out.
//!
//! It owns: `OpenH264`'s settings, our changes to its sources (`build.rs`, `native/`), the pyramid
//! of frames, and the layout of a frame. It must not know: pictures, prompts, MP4, how a quantiser
//! is chosen. `animatic` does all that.
//!
//! It is a separate crate so that the C++ that we change can be tested with `AddressSanitizer`
//! without the rest of the film code: `scripts/test memory`.
//!
//! Begin at [`Encoder`].

mod encoder;
mod frame;

pub use encoder::{Encoder, EncoderError, PYRAMID, StreamFormat};
pub use frame::{FramePlanes, I420Frame};
