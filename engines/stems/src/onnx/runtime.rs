//! ONNX Runtime: finds its library, loads graphs, and runs them on plain slices.
//!
//! This module knows tensors only by shape. The library is shared by the process and stays loaded.

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
use crate::parallel::{CancelCheck, WorkCancelled};

/// How graphs are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeOptions {
    /// The runtime's library. If `None`, `ORT_DYLIB_PATH`, else the system's `libonnxruntime.so`.
    /// The first one loaded serves the whole process.
    pub library: Option<PathBuf>,
    /// Threads for a run of a graph; 0 is one per core.
    pub threads: usize,
}

static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// Loads the library once, or returns why it cannot be loaded.
pub(super) fn environment(options: &RuntimeOptions) -> Result<Environment, ModelError> {
    let mut slot = lock(&ENVIRONMENT);
    if let Some(environment) = &*slot {
        return Ok(environment.clone());
    }
    let from_variable = std::env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty());
    let system_name = format!(
        "{}onnxruntime{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let library = options.library.clone().or(from_variable.map(PathBuf::from));
    let library = library.unwrap_or_else(|| system_name.into());
    let result = catch_panics(|| {
        let builder = ort::init_from(&library).map_err(|e| e.to_string())?;
        let environment = builder.with_name("stems").with_telemetry(false).build();
        environment.map_err(|e| e.to_string())
    });
    let environment = result.map_err(ModelError::NoRuntime)?;
    // The runtime would log to standard error. Everything that matters is returned as an error.
    environment.set_log_level(ort::logging::LogLevel::Fatal);
    *slot = Some(environment.clone());
    Ok(environment)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The content stays valid if another thread panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binding panics if a library or a graph breaks its rules; this turns the panic into an error.
/// Nothing that the closure touched is used afterwards, so asserting unwind safety is correct.
fn catch_panics<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("the runtime panicked".to_owned()))
}

/// An input or an output of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GraphPort {
    pub(super) name: String,
    /// Size of each dimension; -1 if dynamic.
    pub(super) dims: Vec<i64>,
    /// Whether it has 32-bit floats.
    pub(super) is_float: bool,
}

impl GraphPort {
    fn from_outlet(outlet: &Outlet) -> Self {
        Self {
            name: outlet.name().to_owned(),
            dims: outlet
                .dtype()
                .tensor_shape()
                .map(|s| s.to_vec())
                .unwrap_or_default(),
            is_float: outlet.dtype().tensor_type() == Some(TensorElementType::Float32),
        }
    }

    /// Checks that the port has floats of this shape. `fields` are the manifest's fields for each
    /// dimension.
    pub(super) fn check(&self, shape: &[usize], fields: &[&str]) -> Result<(), ModelError> {
        let describe = |reason: &str| {
            let Self { name, dims, .. } = self;
            format!("{reason}: the graph's `{name}` has shape {dims:?}, expected is {shape:?}")
        };
        let first = fields.first().copied().unwrap_or("file");
        if !self.is_float {
            return Err(ModelError::field(first, describe("no 32-bit floats")));
        }
        if self.dims.len() != shape.len() {
            return Err(ModelError::field(first, describe("wrong rank")));
        }
        for ((&dim, &size), field) in self.dims.iter().zip(shape).zip(fields) {
            if dim >= 0 && usize::try_from(dim) != Ok(size) {
                return Err(ModelError::field(field, describe("wrong size")));
            }
        }
        Ok(())
    }
}

/// A loaded graph. Runs are serialised.
#[derive(Debug)]
pub(super) struct GraphSession {
    session: Mutex<Session>,
    pub(super) inputs: Vec<GraphPort>,
    pub(super) outputs: Vec<GraphPort>,
}

/// An input tensor: port number, shape, values.
pub(super) type InputTensor<'a> = (usize, &'a [usize], &'a [f32]);

/// An output tensor: port number and required shape.
pub(super) type OutputTensor<'a> = (usize, &'a [usize]);

impl GraphSession {
    pub(super) fn open(file: &[u8], options: &RuntimeOptions) -> Result<Self, ModelError> {
        let environment = environment(options)?;
        let session = catch_panics(|| {
            let to_text = |e: &dyn std::fmt::Display| e.to_string();
            let builder = Session::builder(&environment).map_err(|e| to_text(&e))?;
            let builder = builder
                .with_intra_threads(options.threads)
                .map_err(|e| to_text(&e))?;
            let mut builder = builder.with_inter_threads(1).map_err(|e| to_text(&e))?;
            builder.commit_from_memory(file).map_err(|e| to_text(&e))
        });
        let session = session.map_err(|e| ModelError::field("file", e))?;
        Ok(Self {
            inputs: session
                .inputs()
                .iter()
                .map(GraphPort::from_outlet)
                .collect(),
            outputs: session
                .outputs()
                .iter()
                .map(GraphPort::from_outlet)
                .collect(),
            session: Mutex::new(session),
        })
    }

    /// Runs the graph and returns the requested outputs in order. All values are finite.
    pub(super) fn run(
        &self,
        input_tensors: &[InputTensor<'_>],
        output_tensors: &[OutputTensor<'_>],
        stop: CancelCheck<'_>,
    ) -> Result<Vec<Vec<f32>>, SeparateError> {
        stop.check()?;
        // A cancelled run fails with the runtime's own message. The second check turns that into a
        // cancellation.
        let result = catch_panics(|| self.run_watched(input_tensors, output_tensors, stop));
        stop.check()?;
        result.map_err(SeparateError::Model)
    }

    fn run_watched(
        &self,
        input_tensors: &[InputTensor<'_>],
        output_tensors: &[OutputTensor<'_>],
        stop: CancelCheck<'_>,
    ) -> Result<Vec<Vec<f32>>, String> {
        let mut inputs: Vec<(&str, SessionInputValue<'_>)> = Vec::new();
        for &(port, shape, values) in input_tensors {
            let tensor = TensorRef::from_array_view((shape, values)).map_err(|e| e.to_string())?;
            inputs.push((&self.inputs[port].name, tensor.into()));
        }
        let options = RunOptions::new().map_err(|e| e.to_string())?;
        let mut session = lock(&self.session);
        let outputs = std::thread::scope(|scope| {
            // Ends when `running` is dropped.
            let (running, finished) = channel::<()>();
            // A running graph cannot check for cancellation, so another thread does, and terminates
            // it.
            let options = &options;
            scope.spawn(move || {
                while finished.recv_timeout(CANCEL_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout)
                {
                    if stop.check() == Err(WorkCancelled) && options.terminate().is_ok() {
                        break;
                    }
                }
            });
            let outputs = session.run_with_options(inputs, options);
            drop(running);
            outputs.map_err(|e| e.to_string())
        })?;
        let extract = |&(port, shape): &OutputTensor<'_>| {
            let name = &self.outputs[port].name;
            let value = outputs
                .get(name)
                .ok_or_else(|| format!("there is no output `{name}`"))?;
            let (dims, values) = value
                .try_extract_tensor::<f32>()
                .map_err(|e| e.to_string())?;
            let same_size = |(&dim, &size): (&i64, &usize)| usize::try_from(dim) == Ok(size);
            if dims.len() != shape.len() || !dims.iter().zip(shape).all(same_size) {
                let dims = &dims[..];
                return Err(format!(
                    "its output `{name}` has shape {dims:?} instead of {shape:?}"
                ));
            }
            // A single NaN would spread over everything that overlaps it.
            if !values.iter().all(|x| x.is_finite()) {
                return Err(format!(
                    "its output `{name}` contains values that are not numbers"
                ));
            }
            Ok(values.to_vec())
        };
        output_tensors.iter().map(extract).collect()
    }
}

/// How often a run checks for cancellation.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(20);
