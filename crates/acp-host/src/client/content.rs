//! Which content an agent takes in a prompt.

use agent_client_protocol_schema::v1::{ContentBlock, PromptCapabilities};

use super::{ClientError, require};

/// Text and resource links are for everyone; the rest needs the agent's word.
pub(super) fn check(capabilities: &PromptCapabilities, prompt: &[ContentBlock]) -> Result<(), ClientError> {
    prompt.iter().try_for_each(|block| match block {
        ContentBlock::Image(_) => {
            require(capabilities.image, "images in prompts", "agentCapabilities.promptCapabilities.image")
        }
        ContentBlock::Audio(_) => {
            require(capabilities.audio, "audio in prompts", "agentCapabilities.promptCapabilities.audio")
        }
        ContentBlock::Resource(_) => {
            let capability = "agentCapabilities.promptCapabilities.embeddedContext";
            require(capabilities.embedded_context, "embedded files in prompts", capability)
        }
        _ => Ok(()),
    })
}
