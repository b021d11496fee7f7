# Made by scripts/package from packaging/homebrew/acp-workbench.rb.
class AcpWorkbench < Formula
  desc "@SUMMARY@"
  version "@VERSION@"
  license any_of: [@LICENSE@]
  url "@BASE_URL@/v@VERSION@/@TARBALL@"
  sha256 "@SHA256@"

  depends_on :linux

  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/acp"
    zsh_completion.install "share/zsh/vendor-completions/_acp"
    fish_completion.install "share/fish/vendor_completions.d/acp.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/acp --version")
    system bin/"acp", "comply", "--agent", "mock", "--test", "init.agent-info"
  end
end
