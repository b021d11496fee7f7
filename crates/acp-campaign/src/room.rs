//! An installed agent outside of tests: a home of its own and a scripted model, for as long as somebody talks with it.

use std::path::{Path, PathBuf};

use acp_link::Link;
use acp_link::child::{self, Child};
use acp_match::Vars;
use acp_model::{EndpointSettings, Hints, ModelEndpoint};
use acp_profile::Profile;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::cell::Cell;
use crate::real::{PrepareError, Real};

/// Why an installed agent cannot be started with a home and a model of its own.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// Its home cannot be made.
    #[error("cannot make a home: {0}")]
    Home(std::io::Error),
    /// The scripted model cannot listen.
    #[error("the scripted model cannot listen on loopback: {0}")]
    Model(std::io::Error),
    /// Its home cannot be prepared as the profile wants.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// It does not start.
    #[error(transparent)]
    Start(#[from] child::SpawnError),
    /// A request of its profile cannot be filled in.
    #[error(transparent)]
    Setup(#[from] acp_profile::ResolveError),
}

/// What an agent lives in. It is taken down when dropped.
pub struct Room {
    profile: Profile,
    cell: Cell,
    _model: Option<ModelEndpoint>,
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Room").field("agent", &self.profile.name).field("cell", &self.cell).finish()
    }
}

impl Room {
    /// Makes the home, starts the model and the agent. The agent works in `workspace`.
    pub fn open<'a>(
        real: &'a Real,
        workspace: &'a Path,
        supervisor: Option<PathBuf>,
    ) -> BoxFuture<'a, Result<(Room, Link, Child), RoomError>> {
        Box::pin(async move {
            let mut cell = Cell::make(&real.profile.name, None).map_err(RoomError::Home)?;
            cell.sandbox = workspace.to_path_buf();
            let model = if real.has_model() {
                let settings =
                    EndpointSettings { hints: Hints::from(&real.profile), ..EndpointSettings::default() };
                let started = ModelEndpoint::start(settings).await;
                Some(started.map_err(RoomError::Model)?)
            } else {
                None
            };
            let url = model.as_ref().map(ModelEndpoint::url);
            let ready = real.ready(&cell, url.as_deref()).await?;
            let options = child::SpawnOptions { supervisor, ..ready.options };
            let (link, child) = child::spawn(&options)?;
            Ok((Room { profile: real.profile.clone(), cell, _model: model }, link, child))
        })
    }

    /// The requests that the agent needs after this session was opened.
    pub fn setup(&self, session: &str) -> Result<Vec<Value>, RoomError> {
        Ok(self.profile.setup_requests(&Vars::new().with("sessionId", session))?)
    }
}
