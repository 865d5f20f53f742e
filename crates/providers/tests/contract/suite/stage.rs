//! What a scenario plays on: one case with its own simulator.

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

/// Between two polls.
const BEAT: Duration = Duration::from_millis(5);
/// And how long that would be at a provider's pace.
const DOUBTED_BEAT: Duration = Duration::from_secs(30);
/// Every scenario is over by then.
const DEADLINE: Duration = Duration::from_mins(1);

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

type Submitted = Result<OrderAcceptance, SubmitError<Infallible>>;

impl Stage {
    pub(crate) async fn new(case: Case) -> Self {
        let simulator = Simulator::start().await.unwrap();
        simulator.world().set_plan(plan(PlannedEnd::Success));
        let provider = provider(&case, &simulator.url(case.simulates()));
        Self {
            driver: Driver::new(),
            secret: Secret::new(case.secret),
            simulator,
            case: fitting(case, &provider),
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
            .filter(|one| one.role == RequestRole::Submit)
            .count()
    }

    /// Orders that the provider took.
    pub(crate) fn accepted(&self) -> usize {
        self.world().accepted_count(self.case.simulates())
    }

    /// One paid submission arrived, and one order was taken.
    pub(crate) fn paid_once(&self) {
        assert_eq!((self.submissions(), self.accepted()), (1, 1), "paid once");
    }

    pub(crate) async fn submit(&self) -> Submitted {
        self.submit_to(&self.provider).await
    }

    pub(crate) async fn submit_to(&self, provider: &Provider) -> Submitted {
        let (watch, order) = (ProgressWatch::new(), &self.case.order);
        let mut kept = 0;
        let before = self.submissions();
        let intent = async || {
            assert_eq!(self.submissions(), before, "the intent comes first");
            kept += 1;
            Ok(SendDeadline::any_time())
        };
        let submitted = self
            .driver
            .submit(provider, &self.secret, order, &watch, intent)
            .await;
        let before = matches!(submitted, Err(SubmitError::BeforeSubmission(_)));
        assert_eq!(kept, u32::from(!before), "the intent is kept once");
        submitted
    }

    pub(crate) async fn poll(&self, handle: &JobHandle) -> Result<PollOutcome, ProviderError> {
        self.driver.poll(&self.provider, &self.secret, handle).await
    }

    /// Polls until the job is done, as a process would that starts anew each
    /// time. Only the end of the job ends it, or a doubt that stays.
    pub(crate) async fn finish(
        &self,
        accepted: OrderAcceptance,
    ) -> Result<Vec<JobOutput>, ProviderError> {
        let handle = match accepted {
            OrderAcceptance::Done(outputs) => return Ok(outputs),
            OrderAcceptance::Job { handle, .. } => handle,
        };
        let polls = async {
            let kept = serde_json::to_string(&handle).unwrap();
            let mut beat = tokio::time::interval(BEAT);
            let (mut doubt, mut elapsed) = (EndDoubt::default(), Duration::ZERO);
            loop {
                beat.tick().await;
                elapsed += DOUBTED_BEAT;
                let handle: JobHandle = serde_json::from_str(&kept).unwrap();
                let polled = self.poll(&handle).await;
                let is_believed = doubt.note(elapsed, polled.as_ref().err());
                match polled {
                    Ok(PollOutcome::Done(outputs)) => return Ok(outputs),
                    Err(error) if is_believed || error.ends_job() => return Err(error),
                    Ok(PollOutcome::Running { .. }) | Err(_) => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, polls).await.unwrap()
    }

    /// What the order comes to, whenever that shows.
    pub(crate) async fn outcome(&self) -> Result<Vec<JobOutput>, ProviderError> {
        match self.submit().await {
            Ok(accepted) => self.finish(accepted).await,
            Err(SubmitError::Intent(never)) => match never {},
            Err(SubmitError::TooLate) => unreachable!("it may leave at any time"),
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
        let done = self
            .driver
            .download(&self.provider, &self.secret, source, &mut file)
            .await?;
        let mut bytes = Vec::new();
        file.rewind().await.unwrap();
        file.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(done.size_bytes, bytes.len() as u64);
        Ok((done, bytes))
    }

    /// The outputs are those that were ordered, and hold what they should.
    pub(crate) async fn check(&self, outputs: &[JobOutput]) {
        let whats: Vec<&OutputKind> = outputs.iter().map(|output| &output.kind).collect();
        match &self.case.makes {
            Makes::Video => assert_eq!(whats, [&OutputKind::Video]),
            Makes::Stems(targets) => {
                let wanted: Vec<OutputKind> =
                    targets.iter().copied().map(OutputKind::Stem).collect();
                let missing = wanted.iter().find(|what| !whats.contains(what));
                assert!(missing.is_none(), "no {missing:?} among {whats:?}");
                assert_eq!(wanted.len(), whats.len(), "{whats:?}");
            }
            Makes::Clips(number) => {
                let clips = whats
                    .iter()
                    .filter(|what| matches!(what, OutputKind::Clip(_)));
                assert_eq!((clips.count(), whats.len()), (*number, *number));
            }
            Makes::Persona => {
                assert!(matches!(whats[..], [OutputKind::Persona { id, .. }] if !id.is_empty()));
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
        let riff = bytes.starts_with(b"RIFF");
        let said = bytes.get(4..8).and_then(|size| size.try_into().ok());
        let whole = said.is_some_and(|said| u32::from_le_bytes(said) as usize == bytes.len() - 8);
        assert!(!riff || whole, "all of the recording");
    }

    /// Outputs that are fetched from the provider, if there are any.
    pub(crate) fn fetched(outputs: &[JobOutput]) -> Option<&OutputSource> {
        let mut sources = outputs.iter().map(|output| &output.source);
        sources.find(|source| matches!(source, OutputSource::Address(_) | OutputSource::Call(_)))
    }
}

/// What the case's model may be asked for, as a gateway sees it.
pub(super) fn limits(case: &Case, provider: &Provider, kind: MediaKind) -> Option<ModelLimits> {
    let own = provider.adapter().limits(kind, case.model)?;
    Some(Catalogue::embedded().limits(case.protocol, case.model, own))
}

/// The case with a size and a length that the model offers.
fn fitting(mut case: Case, provider: &Provider) -> Case {
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
    Provider::new(protocol, &settings, ProviderRules::default()).unwrap()
}
