//! What a scenario plays on: one case with its own simulator.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use providers::catalogue::Catalogue;
use providers::driver::schedule::Doubt;
use providers::driver::{
    Accepted, DownloadError, Downloaded, Driver, Polled, Provider, Rules, SendBefore, SubmitError,
    Watch,
};
use providers::{
    Handle, Kind, Limits, Output, ProviderError, Secret, Settings, Source, What, Work,
};
use simulator::{End, Fault, Plan, Role, Simulator, World};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::{Case, Makes};

/// Between two polls.
const BEAT: Duration = Duration::from_millis(5);
/// And how long that would be at a provider's pace.
const DOUBTED_BEAT: Duration = Duration::from_secs(30);
/// Every scenario is over by then.
const DEADLINE: Duration = Duration::from_mins(1);

/// How long jobs take here.
pub(crate) fn plan(end: End) -> Plan {
    Plan {
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

type Submitted = Result<Accepted, SubmitError<Infallible>>;

impl Stage {
    pub(crate) async fn new(case: Case) -> Self {
        let simulator = Simulator::start().await.unwrap();
        simulator.world().set_plan(plan(End::Success));
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
    pub(crate) fn fault(&self, fault: Fault, role: Role, times: u32) {
        self.world()
            .order(fault, Some(self.case.simulates()), Some(role), times);
    }

    /// Submissions that arrived.
    pub(crate) fn submissions(&self) -> usize {
        let journal = self.world().journal();
        journal
            .iter()
            .filter(|one| one.role == Role::Submit)
            .count()
    }

    /// Orders that the provider took.
    pub(crate) fn accepted(&self) -> usize {
        self.world().accepted(self.case.simulates())
    }

    /// One paid submission arrived, and one order was taken.
    pub(crate) fn paid_once(&self) {
        assert_eq!((self.submissions(), self.accepted()), (1, 1), "paid once");
    }

    pub(crate) async fn submit(&self) -> Submitted {
        self.submit_to(&self.provider).await
    }

    pub(crate) async fn submit_to(&self, provider: &Provider) -> Submitted {
        let (watch, order) = (Watch::new(), &self.case.order);
        let mut kept = 0;
        let before = self.submissions();
        let intent = async || {
            assert_eq!(self.submissions(), before, "the intent comes first");
            kept += 1;
            Ok(SendBefore::any_time())
        };
        let submitted = self
            .driver
            .submit(provider, &self.secret, order, &watch, intent)
            .await;
        let before = matches!(submitted, Err(SubmitError::Before(_)));
        assert_eq!(kept, u32::from(!before), "the intent is kept once");
        submitted
    }

    pub(crate) async fn poll(&self, handle: &Handle) -> Result<Polled, ProviderError> {
        self.driver.poll(&self.provider, &self.secret, handle).await
    }

    /// Polls until the job is done, as a process would that starts anew each
    /// time. Only the end of the job ends it, or a doubt that stays.
    pub(crate) async fn finish(&self, accepted: Accepted) -> Result<Vec<Output>, ProviderError> {
        let handle = match accepted {
            Accepted::Done(outputs) => return Ok(outputs),
            Accepted::Job { handle, .. } => handle,
        };
        let polls = async {
            let kept = serde_json::to_string(&handle).unwrap();
            let mut beat = tokio::time::interval(BEAT);
            let (mut doubt, mut elapsed) = (Doubt::default(), Duration::ZERO);
            loop {
                beat.tick().await;
                elapsed += DOUBTED_BEAT;
                let handle: Handle = serde_json::from_str(&kept).unwrap();
                let polled = self.poll(&handle).await;
                let is_believed = doubt.note(elapsed, polled.as_ref().err());
                match polled {
                    Ok(Polled::Done(outputs)) => return Ok(outputs),
                    Err(error) if is_believed || error.ends_job() => return Err(error),
                    Ok(Polled::Running { .. }) | Err(_) => {}
                }
            }
        };
        tokio::time::timeout(DEADLINE, polls).await.unwrap()
    }

    /// What the order comes to, whenever that shows.
    pub(crate) async fn outcome(&self) -> Result<Vec<Output>, ProviderError> {
        match self.submit().await {
            Ok(accepted) => self.finish(accepted).await,
            Err(SubmitError::Intent(never)) => match never {},
            Err(SubmitError::TooLate) => unreachable!("it may leave at any time"),
            Err(
                SubmitError::Before(error)
                | SubmitError::Refused(error)
                | SubmitError::Failed(error)
                | SubmitError::Unclear(error),
            ) => Err(error),
        }
    }

    pub(crate) async fn download(
        &self,
        source: &Source,
    ) -> Result<(Downloaded, Vec<u8>), DownloadError> {
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
    pub(crate) async fn check(&self, outputs: &[Output]) {
        let whats: Vec<&What> = outputs.iter().map(|output| &output.what).collect();
        match &self.case.makes {
            Makes::Video => assert_eq!(whats, [&What::Video]),
            Makes::Stems(targets) => {
                let wanted: Vec<What> = targets.iter().copied().map(What::Stem).collect();
                let missing = wanted.iter().find(|what| !whats.contains(what));
                assert!(missing.is_none(), "no {missing:?} among {whats:?}");
                assert_eq!(wanted.len(), whats.len(), "{whats:?}");
            }
            Makes::Clips(number) => {
                let clips = whats.iter().filter(|what| matches!(what, What::Clip(_)));
                assert_eq!((clips.count(), whats.len()), (*number, *number));
            }
            Makes::Persona => {
                assert!(matches!(whats[..], [What::Persona { id, .. }] if !id.is_empty()));
            }
        }
        for output in outputs {
            self.check_content(output).await;
        }
    }

    async fn check_content(&self, output: &Output) {
        if matches!(output.source, Source::Nothing) {
            assert!(matches!(self.case.makes, Makes::Persona | Makes::Clips(_)));
            return;
        }
        let (_, bytes) = self.download(&output.source).await.unwrap();
        match output.what {
            What::Video => assert_eq!(&bytes[4..8], b"ftyp"),
            _ => assert_eq!(&bytes[..4], b"RIFF"),
        }
        let riff = bytes.starts_with(b"RIFF");
        let said = bytes.get(4..8).and_then(|size| size.try_into().ok());
        let whole = said.is_some_and(|said| u32::from_le_bytes(said) as usize == bytes.len() - 8);
        assert!(!riff || whole, "all of the recording");
    }

    /// Outputs that are fetched from the provider, if there are any.
    pub(crate) fn fetched(outputs: &[Output]) -> Option<&Source> {
        let mut sources = outputs.iter().map(|output| &output.source);
        sources.find(|source| matches!(source, Source::Address(_) | Source::Call(_)))
    }
}

/// What the case's model may be asked for, as a gateway sees it.
pub(super) fn limits(case: &Case, provider: &Provider, kind: Kind) -> Option<Limits> {
    let own = provider.adapter().limits(kind, case.model)?;
    Some(Catalogue::embedded().limits(case.protocol, case.model, own))
}

/// The case with a size and a length that the model offers.
fn fitting(mut case: Case, provider: &Provider) -> Case {
    let limits = limits(&case, provider, Kind::Video);
    if let (Work::Video(video), Some(Limits::Video(limits))) = (&mut case.order.work, limits) {
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
    let settings = Settings {
        base_url: Some(base_url.parse().unwrap()),
        ..Settings::new(
            "simulated",
            case.options.as_object().cloned().unwrap_or_default(),
        )
    };
    let protocol = providers::protocol(case.protocol).unwrap();
    Provider::new(protocol, &settings, Rules::default()).unwrap()
}
