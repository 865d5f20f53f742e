//! The animatic engine: a picture and a prompt in, an H.264 MP4 out.
//!
//! An animatic is what a film maker shows before anything is shot: a still with a camera moving
//! over it. This crate reads the camera direction out of a prompt, takes the caller's picture
//! (or draws a scene from the prompt's words when there is none), moves a camera over it and
//! encodes what the camera sees. Everything is computed here, with no trained weights and no
//! other program.
//!
//! It owns: decoding of untrusted pictures, the words of direction, the drawn scenes, the camera,
//! the encoder's settings and the file's layout. It must not know: HTTP, SQL, async, accounts,
//! where pictures come from or where videos go. Bytes in, bytes out; time and randomness come in
//! as numbers, so the same [`RenderRequest`] gives the same bytes.
//!
//! ```no_run
//! use animatic::{RequestedOptions, RenderControl, Direction, RenderOptions, PictureLimits, RenderRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let picture = animatic::picture::decode(&std::fs::read("in.jpg")?, &PictureLimits::default())?;
//! let prompt = "slow push in, then pan left, 6 seconds";
//! let requested =
//!     RequestedOptions { picture: Some(picture.size()), ..RequestedOptions::default() };
//! let options = RenderOptions::resolve(&requested, &Direction::parse(prompt))?;
//! let request = RenderRequest { picture: Some(&picture), prompt, options };
//! let video = animatic::make(&request, &mut RenderControl::unattended())?;
//! std::fs::write("out.mp4", &video.mp4)?;
//! # Ok(())
//! # }
//! ```
//!
//! A request's path through the modules, which is also their reading order: [`picture`] and
//! [`direction`] turn what the caller sent into values, [`options`] decides size and length,
//! `plan` decides what is shown and says it in words, `scene` draws a scene if there is no picture, `depth` takes a picture apart, `camera` plans the
//! shot, `render` and `warp` draw what the camera sees frame by frame, `shot` joins these, `sound`
//! makes the ambience if one is requested, `film` runs all this in parallel with the encoder at a
//! `quality`, `encode` and `edit_list` write the file, and `make` joins them: from a `request` to
//! a film or an `error`. `y4m` writes the frames uncompressed, for other encoders. [`playback`]
//! decodes finished films.

pub mod picture;

pub mod playback;

pub mod direction;

pub mod options;

pub(crate) mod scene;

mod camera;

mod layer;

mod working_size;

mod depth;

mod render;

mod plane_sampler;

mod quad_plane;

mod warp;

mod colour_grade;

mod title;

mod weather;

mod plan;

mod shot;

mod sound;

mod encode;

mod edit_list;

mod film;

mod make;

mod request;

mod limits;

mod quality;

mod error;

mod y4m;

mod video;

pub use direction::Direction;
pub use error::MakeError;
pub use h264::FramePlanes;
pub use limits::{MAX_SECONDS, MIN_SECONDS};
pub use make::{make, make_retouched, make_with, still};
pub use options::{FPS, OptionsError, RenderOptions, RequestedOptions, SIZES};
pub use picture::{Picture, PictureError, PictureInfo, PictureLimits};
pub use plan::PromptReading;
pub use request::{FrameRetouch, RenderControl, RenderRequest};
pub use sound::Ambience;
pub use title::FONT;
pub use video::{SHEET_COLUMNS, STILL_WIDTH, STILLS, Video};
pub use y4m::write_y4m;
