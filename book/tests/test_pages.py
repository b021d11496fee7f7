"""The reader of pages finds what is wrong with a page."""
import unittest

import pages


def block(info, *lines):
    return "\n".join(["before", f"```{info}", *lines, "```", "after"])


class Steps(unittest.TestCase):
    def test_commands_and_their_output_are_read(self):
        step, other = pages.steps(block("console exit=1", "$ acp one \\", "    two", "out", "$ acp three"))
        self.assertEqual((step.command, step.expected, step.code), ("acp one \\\n    two", ["out"], 0))
        self.assertEqual((other.command, other.expected, other.code), ("acp three", [], 1))

    def test_a_hidden_comment_runs(self):
        step, = pages.steps("<!-- run\ntouch a\n-->\n")
        self.assertEqual((step.command, step.script), ("touch a", True))

    def test_a_block_without_a_language_is_refused(self):
        with self.assertRaisesRegex(pages.Wrong, "line 2: a block needs a language"):
            pages.steps(block("", "acp comply"))

    def test_commands_that_do_not_run_need_a_reason(self):
        with self.assertRaisesRegex(pages.Wrong, "not run: REASON"):
            pages.steps(block("text", "ACP_TOKEN=x acp comply"))
        self.assertEqual(pages.steps(block("text not run: needs a key", "acp comply")), [])
        self.assertEqual(pages.steps(block("text", "acp proxy: listening on a port")), [])

    def test_a_block_that_does_not_end_is_refused(self):
        with self.assertRaisesRegex(pages.Wrong, "does not end"):
            pages.steps("```sh\nacp comply\n")


class Matches(unittest.TestCase):
    def test_what_changes_between_runs_is_compared_by_its_shape(self):
        self.assertTrue(pages.matches(["took 3.2 s in sess_1a_1"], ["took 17 ms in sess_2b_1"]))

    def test_other_text_is_compared_exactly(self):
        self.assertFalse(pages.matches(["1 PASS"], ["1 FAIL"]))
        self.assertFalse(pages.matches(["1 PASS"], ["1 PASS", "and more"]))

    def test_a_gap_matches_words_and_lines(self):
        self.assertTrue(pages.matches(["a […] c", "[…]", "z"], ["a b c", "d", "e", "z"]))
        self.assertTrue(pages.matches(["[…]", "z"], ["z"]))
        self.assertFalse(pages.matches(["a […] c", "[…]", "z"], ["a b c", "d"]))


if __name__ == "__main__":
    unittest.main()
