//! A shot: everything that a video shows, ready to be drawn frame by frame.
//!
//! A shot decides what is shown (the caller's picture, whole or taken apart by depth, or a drawn
//! scene), plans the camera over it, and draws what the camera sees, with the weather before it,
//! the look on it and the titles over it.

use crate::camera::{self, CameraStation, FrameTiming, ShotGeometry};
use crate::colour_grade::ColourGrade;
use crate::depth;
use crate::direction::Direction;
use crate::error::{MakeError, RenderError};
use crate::layer::Layer;
use crate::options::RenderOptions;
use crate::picture::{InterestMap, Picture};
use crate::plan::{PromptReading, ShotPlan};
use crate::render::{ShotRenderer, is_upright};
use crate::request::{RenderControl, RenderRequest};
use crate::scene::Scene;
use crate::sound::Ambience;
use crate::title::TitleOverlay;
use crate::weather::WeatherOverlay;
use crate::working_size::{self, WorkingScale};
use h264::I420Frame;

/// A shot ready to be drawn.
pub(crate) struct Shot {
    renderer: ShotRenderer,
    weather: WeatherOverlay,
    grade: ColourGrade,
    titles: TitleOverlay,
    ambience: Vec<Ambience>,
    reading: PromptReading,
    width: usize,
    /// Whether every frame shows only the picture.
    picture_only: bool,
}

impl Shot {
    /// Checks a request and prepares its shot.
    pub(crate) fn prepare(
        request: &RenderRequest<'_>,
        control: &RenderControl<'_>,
    ) -> Result<Self, MakeError> {
        request.options.check()?;
        if (control.cancelled)() {
            return Err(MakeError::Cancelled);
        }
        Ok(Self::from_request(request)?)
    }

    fn from_request(request: &RenderRequest<'_>) -> Result<Self, RenderError> {
        let options = &request.options;
        let plan = ShotPlan::new(request.prompt, options, request.picture.is_some());
        let (mut reading, titles) = (plan.reading(), plan.titles());
        let ShotPlan {
            direction, scene, ..
        } = plan;
        let (layers, stations) = if let Some(picture) = request.picture {
            let (layers, stations) = picture_layers(picture, &direction, options)?;
            let frame = (options.width, options.height);
            let framing = camera::framing_words(&stations, picture.size(), frame);
            reading.direction.extend(framing);
            (layers, stations)
        } else {
            scene_layers(&scene, &direction, options)?
        };
        let titles = TitleOverlay::typeset(&titles, options);
        let size = (options.width, options.height);
        let mut renderer = ShotRenderer::new(layers, stations, size);
        // Particles take on the scene's light. The extra drawing that measures it is only made for
        // them.
        let scene_colour = if direction.weather.is_empty() {
            [0.0; 3]
        } else {
            mean_colour(&mut renderer, options)?
        };
        // Looks, fades, weather and titles are drawn on RGBA. Only frames without any of them can
        // be made as YUV from the start.
        let untreated = direction.looks.is_empty()
            && (direction.fade_in, direction.fade_out) == (None, None)
            && direction.weather.is_empty()
            && direction.titles.is_empty();
        Ok(Self {
            picture_only: untreated && renderer.is_plain(),
            renderer,
            weather: WeatherOverlay::new(&direction.weather, options, scene_colour),
            grade: ColourGrade::new(&direction, options),
            titles,
            ambience: direction.ambience,
            reading,
            width: options.width as usize,
        })
    }

    /// How the prompt was understood.
    pub(crate) fn reading(&self) -> &PromptReading {
        &self.reading
    }

    /// The sounds that the prompt names.
    pub(crate) fn ambience(&self) -> &[Ambience] {
        &self.ambience
    }

    /// Whether the frame is identical to the previous one.
    pub(crate) fn repeats(&self, frame: usize) -> bool {
        self.renderer.repeats(frame)
            && self.weather.is_clear()
            && self.grade.is_steady(frame)
            && self.titles.is_steady(frame)
    }

    /// Draws a frame into `rgba`, which must hold exactly one frame.
    pub(crate) fn draw(&mut self, frame: usize, rgba: &mut [u8]) -> Result<(), RenderError> {
        self.renderer.draw(frame, rgba)?;
        // The weather is part of the scene, so the look applies to it as well.
        if !self.weather.is_clear() {
            let drift = self.renderer.drift(frame);
            self.weather.draw(frame, drift, self.width, rgba);
        }
        // Titles come after the look, which would tint them.
        self.grade.apply(frame, self.width, rgba);
        self.titles.draw(frame, rgba);
        Ok(())
    }

    /// Draws a frame in the encoder's format. `rgba` is scratch of one frame's size.
    pub(crate) fn draw_yuv(
        &mut self,
        frame: usize,
        rgba: &mut [u8],
        yuv: &mut I420Frame,
    ) -> Result<(), RenderError> {
        if self.picture_only {
            return self.renderer.draw_planes(frame, yuv);
        }
        self.draw(frame, rgba)?;
        yuv.read_rgba(rgba);
        Ok(())
    }

    /// A small copy of a frame that [`Self::draw_yuv`] has just drawn with `rgba`.
    pub(crate) fn small_copy(
        &mut self,
        frame: usize,
        rgba: &[u8],
        width: u32,
    ) -> Result<Picture, RenderError> {
        if self.picture_only {
            self.renderer.draw_small(frame, width)
        } else {
            self.renderer.shrink(rgba, width)
        }
    }
}

/// The mean colour of the first frame.
fn mean_colour(
    renderer: &mut ShotRenderer,
    options: &RenderOptions,
) -> Result<[f32; 3], RenderError> {
    let mut rgba = vec![0; options.width as usize * options.height as usize * 4];
    renderer.draw(0, &mut rgba)?;
    let small = renderer.shrink(&rgba, 32)?;
    let (mut sum, mut count) = ([0.0_f32; 3], 0.0);
    for pixel in small.rgb().chunks_exact(3) {
        for (total, byte) in sum.iter_mut().zip(pixel) {
            *total += f32::from(*byte);
        }
        count += 1.0;
    }
    Ok(sum.map(|total| total / count))
}

/// The caller's picture as layers, and the camera's path over them.
fn picture_layers(
    picture: &Picture,
    direction: &Direction,
    options: &RenderOptions,
) -> Result<(Vec<Layer>, Vec<CameraStation>), RenderError> {
    let interest = InterestMap::from_picture(picture);
    let plan = |deep| plan(direction, picture.size(), options, deep, interest.as_ref());
    // Without travel there is no parallax to show, and a cut-out could only leave visible edges.
    if direction.travels() {
        let stations = plan(true);
        let scale = WorkingScale::for_tiles(&stations, options.width, picture.size());
        let shrunk_picture = working_size::shrink(picture, scale.detail)?;
        let sheets = depth::sheets(shrunk_picture.as_ref().unwrap_or(picture))?;
        if sheets.len() > 1 {
            let layers = working_size::tile_layers(sheets, picture.size(), scale)?;
            return Ok((layers, stations));
        }
    }
    // No depth was found, or none is needed. In a flat picture travel must look like a turn or a
    // zoom, so the camera is planned again.
    let stations = plan(false);
    let layers = if is_upright(&stations) {
        working_size::cubic_layers(picture, WorkingScale::for_cubic(&stations, options.width))?
    } else {
        let scale = WorkingScale::for_tiles(&stations, options.width, picture.size());
        working_size::tiled_picture(picture, scale)?
    };
    Ok((layers, stations))
}

/// A drawn scene as layers, and the camera's path over them.
fn scene_layers(
    scene: &Scene,
    direction: &Direction,
    options: &RenderOptions,
) -> Result<(Vec<Layer>, Vec<CameraStation>), RenderError> {
    let picture = (add_margin(options.width), add_margin(options.height));
    let stations = plan(direction, picture, options, true, None);
    let detail = WorkingScale::for_tiles(&stations, options.width, picture).detail;
    let side = |side| working_size::scale_side(side, detail);
    let sheets = scene.draw(side(picture.0), side(picture.1));
    // The scene is already drawn at the size at which it is stored.
    let scale = WorkingScale {
        detail,
        stored_scale: detail,
    };
    let layers = working_size::tile_layers(sheets, picture, scale)?;
    Ok((layers, stations))
}

fn plan(
    direction: &Direction,
    picture: (u32, u32),
    options: &RenderOptions,
    deep: bool,
    interest: Option<&InterestMap>,
) -> Vec<CameraStation> {
    let timing = FrameTiming {
        frames: options.frames(),
        fps: options.fps,
    };
    let geometry = ShotGeometry {
        picture,
        frame: (options.width, options.height),
        deep,
        interest,
    };
    camera::plan(direction, geometry, timing, options.seed)
}

/// A side of a drawn scene: larger than the frame, so that the camera can come closer and travel.
fn add_margin(side: u32) -> u32 {
    side * 4 / 3
}
