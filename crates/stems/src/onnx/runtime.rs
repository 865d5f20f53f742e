//! The ONNX runtime: finds its library, loads graphs, and runs them on plain slices.
//!
//! Knows tensors by shape only. The library is shared by the process and stays loaded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ort::environment::Environment;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::{Outlet, TensorElementType, TensorRef};

use super::error::ModelError;
use crate::SeparateError;
use crate::parallel::{Stop, Stopped};

/// How graphs are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The runtime's library. `None` takes what `ORT_DYLIB_PATH` names, else what the system
    /// finds as `libonnxruntime.so`. The first that was loaded serves the whole process.
    pub library: Option<PathBuf>,
    /// Threads for one run of one graph; 0 means one for each core.
    pub threads: usize,
}

static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Loads the library unless that was done, and tells why it cannot be.
pub(super) fn environment(options: &Options) -> Result<Environment, ModelError> {
    let mut slot = locked(&ENVIRONMENT);
    if let Some(environment) = &*slot {
        return Ok(environment.clone());
    }
    let named = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty());
    let usual = format!(
        "{}onnxruntime{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = options.library.clone().or(named.map(PathBuf::from));
    let library = library.unwrap_or_else(|| usual.into());
    let made = guarded(|| {
        let builder = ort::init_from(&library).map_err(|e| e.to_string())?;
        let environment = builder.with_name("stems").with_telemetry(false).build();
        environment.map_err(|e| e.to_string())
    });
    let environment = made.map_err(ModelError::NoRuntime)?;
    // It would write to the standard error output; all that matters comes back as errors.
    environment.set_log_level(ort::logging::LogLevel::Fatal);
    *slot = Some(environment.clone());
    Ok(environment)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there stays usable after a panic of someone else.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binding panics where a library or a graph breaks its rules; here that is an error. Nothing
/// that the closure touched is used afterwards, which makes the assertion of unwind safety true.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err("the runtime broke down on it".to_owned()))
}

/// An input or an output of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) name: String,
    /// Its size in each dimension, -1 where it is open.
    pub(super) dims: Vec<i64>,
    /// It holds 32-bit floats.
    pub(super) float: bool,
}

impl Port {
    fn of(outlet: &Outlet) -> Self {
        Self {
            name: outlet.name().to_owned(),
            dims: outlet
                .dtype()
                .tensor_shape()
                .map(|s| s.to_vec())
                .unwrap_or_default(),
            float: outlet.dtype().tensor_type() == Some(TensorElementType::Float32),
        }
    }

    /// Checks that the port takes or gives floats of this shape. `fields` names, for each
    /// dimension, what in the manifest says how large it is.
    pub(super) fn check(&self, shape: &[usize], fields: &[&str]) -> Result<(), ModelError> {
        let words = |reason: &str| {
            let Self { name, dims, .. } = self;
            format!("{reason}: the graph's `{name}` has shape {dims:?}, expected is {shape:?}")
        };
        let first = fields.first().copied().unwrap_or("file");
        if !self.float {
            return Err(ModelError::field(first, words("no 32-bit floats")));
        }
        if self.dims.len() != shape.len() {
            return Err(ModelError::field(first, words("wrong rank")));
        }
        for ((&dim, &size), field) in self.dims.iter().zip(shape).zip(fields) {
            if dim >= 0 && usize::try_from(dim) != Ok(size) {
                return Err(ModelError::field(field, words("wrong size")));
            }
        }
        Ok(())
    }
}

/// A graph that is ready to run. Runs come one after another, whoever asks.
#[derive(Debug)]
pub(super) struct Net {
    session: Mutex<Session>,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
}

/// A tensor that goes in: the input's number, its shape, its values.
pub(super) type Given<'a> = (usize, &'a [usize], &'a [f32]);

/// A tensor that is wanted: the output's number and the shape that it must have.
pub(super) type Wanted<'a> = (usize, &'a [usize]);

impl Net {
    pub(super) fn open(file: &[u8], options: &Options) -> Result<Self, ModelError> {
        let environment = environment(options)?;
        let session = guarded(|| {
            let text = |e: &dyn std::fmt::Display| e.to_string();
            let builder = Session::builder(&environment).map_err(|e| text(&e))?;
            let builder = builder
                .with_intra_threads(options.threads)
                .map_err(|e| text(&e))?;
            let mut builder = builder.with_inter_threads(1).map_err(|e| text(&e))?;
            builder.commit_from_memory(file).map_err(|e| text(&e))
        });
        let session = session.map_err(|e| ModelError::field("file", e))?;
        Ok(Self {
            inputs: session.inputs().iter().map(Port::of).collect(),
            outputs: session.outputs().iter().map(Port::of).collect(),
            session: Mutex::new(session),
        })
    }

    /// Runs the graph, and gives the wanted outputs in their order. All of their values are finite.
    pub(super) fn run(
        &self,
        given: &[Given<'_>],
        wanted: &[Wanted<'_>],
        stop: Stop<'_>,
    ) -> Result<Vec<Vec<f32>>, SeparateError> {
        stop.check()?;
        let made = guarded(|| self.run_watched(given, wanted, stop));
        stop.check()?;
        made.map_err(SeparateError::Model)
    }

    fn run_watched(
        &self,
        given: &[Given<'_>],
        wanted: &[Wanted<'_>],
        stop: Stop<'_>,
    ) -> Result<Vec<Vec<f32>>, String> {
        let mut inputs: Vec<(&str, SessionInputValue<'_>)> = Vec::new();
        for &(port, shape, values) in given {
            let tensor = TensorRef::from_array_view((shape, values)).map_err(|e| e.to_string())?;
            inputs.push((&self.inputs[port].name, tensor.into()));
        }
        let options = RunOptions::new().map_err(|e| e.to_string())?;
        let mut session = locked(&self.session);
        let outputs = std::thread::scope(|scope| {
            // Ends when `running` is dropped.
            let (running, ended) = channel::<()>();
            let options = &options;
            scope.spawn(move || {
                while ended.recv_timeout(WATCH) == Err(RecvTimeoutError::Timeout) {
                    if stop.check() == Err(Stopped) && options.terminate().is_ok() {
                        break;
                    }
                }
            });
            let outputs = session.run_with_options(inputs, options);
            drop(running);
            outputs.map_err(|e| e.to_string())
        })?;
        let take = |&(port, shape): &Wanted<'_>| {
            let name = &self.outputs[port].name;
            let value = outputs
                .get(name)
                .ok_or_else(|| format!("there is no output `{name}`"))?;
            let (dims, values) = value
                .try_extract_tensor::<f32>()
                .map_err(|e| e.to_string())?;
            let size = |(&dim, &size): (&i64, &usize)| usize::try_from(dim) == Ok(size);
            if dims.len() != shape.len() || !dims.iter().zip(shape).all(size) {
                let dims = &dims[..];
                return Err(format!(
                    "its output `{name}` has shape {dims:?} instead of {shape:?}"
                ));
            }
            if !values.iter().all(|x| x.is_finite()) {
                return Err(format!(
                    "its output `{name}` holds values that are no numbers"
                ));
            }
            Ok(values.to_vec())
        };
        wanted.iter().map(take).collect()
    }
}

/// How often a run in progress asks whether it shall stop.
const WATCH: Duration = Duration::from_millis(20);
