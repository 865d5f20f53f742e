//! The stage of a scenario: one case with its own simulator.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use providers::catalogue::Catalogue;
use providers::driver::schedule::EndDoubt;
use providers::driver::{
    DownloadError, DownloadedFile, Driver, OrderAcceptance, PollOutcome, ProgressWatch, Provider,
    ProviderRules, SendDeadline, SubmitError,
};
use providers::{
    JobHandle, JobOutput, MediaKind, ModelLimits, OutputKind, OutputSource, ProviderError,
    ProviderSettings, Secret, WorkSpec,
};
use simulator::{Fault, JobPlan, PlannedEnd, RequestRole, Simulator, World};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::{Case, Makes};

/// The time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The time that `EndDoubt` is told has passed in each poll interval.
const SIMULATED_INTERVAL: Duration = Duration::from_secs(30);
/// The longest that a scenario may take. It only ends what hangs: no scenario waits for it, and a busy machine is slow.
const DEADLINE: Duration = Duration::from_mins(8);
/// The longest that a response may take. No scenario waits for it either: here, responses are lost by closed connections.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(5);

/// How long jobs take here.
pub(crate) fn plan(end: PlannedEnd) -> JobPlan {
    JobPlan {
        incomplete: false,
        queued: Duration::from_millis(5),
        running: Duration::from_millis(15),
        polls: 0,
        end,
    }
}

pub(crate) struct Stage {
    pub(crate) case: Case,
    pub(crate) driver: Driver,
    pub(crate) provider: Provider,
    pub(crate) secret: Secret,
    simulator: Simulator,
}

type SubmitResult = Result<OrderAcceptance, SubmitError<Infallible>>;

impl Stage {
    pub(crate) async fn new(case: Case) -> Self {
        let simulator = Simulator::start().await.unwrap();
        simulator.world().set_plan(plan(PlannedEnd::Success));
        let provider = provider(&case, &simulator.url(case.simulates()));
        Self {
            driver: Driver::new(),
            secret: Secret::new(case.secret),
            simulator,
            case: fit_to_limits(case, &provider),
            provider,
        }
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        self.simulator.world()
    }

    /// Orders a fault for the next requests of a role.
    pub(crate) fn fault(&self, fault: Fault, role: RequestRole, times: u32) {
        self.world()
            .order_fault(fault, Some(self.case.simulates()), Some(role), times);
    }

    /// Submissions that arrived.
    pub(crate) fn submissions(&self) -> usize {
        let journal = self.world().journal();
        journal
            .iter()
            .filter(|request| request.role == RequestRole::Submit)
            .count()
    }

    /// Orders that the provider accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.world().accepted_count(self.case.simulates())
    }

    /// Checks that one paid submission arrived and one order was accepted.
    pub(crate) fn paid_once(&self) {
        assert_eq!((self.submissions(), self.accepted()), (1, 1), "paid once");
    }

    pub(crate) async fn submit(&self) -> SubmitResult {
        self.submit_to(&self.provider).await
    }

    pub(crate) async fn submit_to(&self, provider: &Provider) -> SubmitResult {
        let (watch, order) = (ProgressWatch::new(), &self.case.order);
        let mut intents = 0;
        let submissions_before = self.submissions();
        let intent = async || {
            assert_eq!(
                self.submissions(),
                submissions_before,
                "the intent comes first"
            );
            intents += 1;
            Ok(SendDeadline::any_time())
        };
        let submitted = self
            .driver
            .submit(provider, &self.secret, order, &watch, intent)
            .await;
        let failed_before = matches!(submitted, Err(SubmitError::BeforeSubmission(_)));
        assert_eq!(
            intents,
            u32::from(!failed_before),
            "the intent is recorded once"
        );
        submitted
    }

    pub(crate) async fn poll(&self, handle: &JobHandle) -> Result<PollOutcome, ProviderError> {
        self.driver.poll(&self.provider, &self.secret, handle).await
    }

    /// Polls until the job has ended, reading the handle from its stored form each time, as after a
    /// restart. Answers that only cast doubt on the job end it if they persist.
    pub(crate) async fn finish(
        &self,
        accepted: OrderAcceptance,
    ) -> Result<Vec<JobOutput>, ProviderError> {
        let handle = match accepted {
            OrderAcceptance::Done(outputs) => return Ok(outputs),
            OrderAcceptance::Job { handle, .. } => handle,
        };
        let polls = async {
            let stored_handle = serde_json::to_string(&handle).unwrap();
            let mut interval = tokio::time::interval(POLL_INTERVAL);
            let (mut doubt, mut elapsed) = (EndDoubt::default(), Duration::ZERO);
            loop {
                interval.tick().await;
                elapsed += SIMULATED_INTERVAL;
                let handle: JobHandle = serde_json::from_str(&stored_handle).unwrap();
                let outcome = self.poll(&handle).await;
                let is_end_confirmed = doubt.note(elapsed, outcome.as_ref().err());
                match outcome {
                    Ok(PollOutcome::Done(outputs)) => return Ok(outputs),
                    Err(error) if is_end_confirmed || error.ends_job() => return Err(error),
                    Ok(PollOutcome::Running { .. }) | Err(_) => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, polls).await.unwrap()
    }

    /// The order's result, whether the submission or a poll returns it.
    pub(crate) async fn outcome(&self) -> Result<Vec<JobOutput>, ProviderError> {
        match self.submit().await {
            Ok(accepted) => self.finish(accepted).await,
            Err(SubmitError::Intent(never)) => match never {},
            Err(SubmitError::TooLate) => unreachable!("there is no deadline"),
            Err(
                SubmitError::BeforeSubmission(error)
                | SubmitError::Refused(error)
                | SubmitError::Failed(error)
                | SubmitError::Unclear(error),
            ) => Err(error),
        }
    }

    pub(crate) async fn download(
        &self,
        source: &OutputSource,
    ) -> Result<(DownloadedFile, Vec<u8>), DownloadError> {
        let mut file = tokio::fs::File::from_std(tempfile::tempfile().unwrap());
        let downloaded = self
            .driver
            .download(&self.provider, &self.secret, source, &mut file)
            .await?;
        let mut bytes = Vec::new();
        file.rewind().await.unwrap();
        file.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(downloaded.size_bytes, bytes.len() as u64);
        Ok((downloaded, bytes))
    }

    /// Checks that the outputs are the ordered ones and have the right content.
    pub(crate) async fn check(&self, outputs: &[JobOutput]) {
        let kinds: Vec<&OutputKind> = outputs.iter().map(|output| &output.kind).collect();
        match &self.case.makes {
            Makes::Video => assert_eq!(kinds, [&OutputKind::Video]),
            Makes::Stems(targets) => {
                let expected: Vec<OutputKind> =
                    targets.iter().copied().map(OutputKind::Stem).collect();
                let missing = expected.iter().find(|kind| !kinds.contains(kind));
                assert!(missing.is_none(), "no {missing:?} among {kinds:?}");
                assert_eq!(expected.len(), kinds.len(), "{kinds:?}");
            }
            Makes::Clips(number) => {
                let clips = kinds
                    .iter()
                    .filter(|kind| matches!(kind, OutputKind::Clip(_)));
                assert_eq!((clips.count(), kinds.len()), (*number, *number));
            }
            Makes::Persona => {
                assert!(matches!(kinds[..], [OutputKind::Persona { id, .. }] if !id.is_empty()));
            }
        }
        for output in outputs {
            self.check_content(output).await;
        }
    }

    async fn check_content(&self, output: &JobOutput) {
        if matches!(output.source, OutputSource::Nothing) {
            assert!(matches!(self.case.makes, Makes::Persona | Makes::Clips(_)));
            return;
        }
        let (_, bytes) = self.download(&output.source).await.unwrap();
        match output.kind {
            OutputKind::Video => assert_eq!(&bytes[4..8], b"ftyp"),
            _ => assert_eq!(&bytes[..4], b"RIFF"),
        }
        let is_riff = bytes.starts_with(b"RIFF");
        let declared_size = bytes.get(4..8).and_then(|size| size.try_into().ok());
        let is_complete =
            declared_size.is_some_and(|size| u32::from_le_bytes(size) as usize == bytes.len() - 8);
        assert!(!is_riff || is_complete, "the recording is complete");
    }

    /// Outputs that are fetched from the provider, if there are any.
    pub(crate) fn fetched(outputs: &[JobOutput]) -> Option<&OutputSource> {
        let mut sources = outputs.iter().map(|output| &output.source);
        sources.find(|source| matches!(source, OutputSource::Address(_) | OutputSource::Call(_)))
    }
}

/// The limits of the case's model, as a gateway sees them.
pub(super) fn limits(case: &Case, provider: &Provider, kind: MediaKind) -> Option<ModelLimits> {
    let protocol_limits = provider.adapter().limits(kind, case.model)?;
    Some(Catalogue::embedded().limits(case.protocol, case.model, protocol_limits))
}

/// The case with a size and a length that the model offers.
fn fit_to_limits(mut case: Case, provider: &Provider) -> Case {
    let limits = limits(&case, provider, MediaKind::Video);
    if let (WorkSpec::Video(video), Some(ModelLimits::Video(limits))) =
        (&mut case.order.work, limits)
    {
        if !limits.sizes.contains(&video.size) {
            video.size = limits.sizes[0];
        }
        if !limits.durations.contains(f64::from(video.seconds)) {
            video.seconds = limits.default_seconds;
        }
    }
    case
}

pub(crate) fn provider(case: &Case, base_url: &str) -> Provider {
    let settings = ProviderSettings {
        base_url: Some(base_url.parse().unwrap()),
        ..ProviderSettings::new(
            "simulated",
            case.options.as_object().cloned().unwrap_or_default(),
        )
    };
    let protocol = providers::protocol(case.protocol).unwrap();
    let rules = ProviderRules {
        connect_timeout: RESPONSE_TIMEOUT,
        short_timeout: RESPONSE_TIMEOUT,
        ..ProviderRules::default()
    };
    Provider::new(protocol, &settings, rules).unwrap()
}
