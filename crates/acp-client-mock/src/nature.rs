//! What a client is like.

use acp_script::ClientSwitch;
use acp_script::client_defects::ClientDefect;
use acp_script::client_variants::{ClientHabits, ClientVariant};
use acp_script::faults::Fault;

/// What is unusual or wrong about a client; nothing, for the conforming one.
#[derive(Clone, Debug, Default)]
pub struct ClientNature {
    /// How it goes about its work.
    pub habits: ClientHabits,
    /// What happens to its frames.
    pub faults: Vec<Fault>,
    /// How it is wrong.
    pub switches: Vec<ClientSwitch>,
    /// For faults that happen by chance.
    pub seed: u64,
}

impl ClientNature {
    /// A client that is all of these at once; an error if they contradict each other.
    pub fn variants<'a>(variants: impl IntoIterator<Item = &'a ClientVariant>) -> Result<Self, String> {
        let variants: Vec<&ClientVariant> = variants.into_iter().collect();
        let faults = variants.iter().flat_map(|variant| variant.faults.iter().cloned()).collect();
        Ok(Self { habits: ClientHabits::with(variants)?, faults, ..Self::default() })
    }

    /// The same with a defect. What the defect changes comes first, and what varies the form of a frame last.
    #[must_use]
    pub fn with(mut self, defect: &ClientDefect) -> Self {
        self.faults.splice(0..0, defect.faults.iter().cloned());
        self.switches.extend(defect.switch);
        self
    }
}
