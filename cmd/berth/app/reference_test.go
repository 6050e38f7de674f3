package app

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the reference of the commands instead of comparing it")

// commandReference is the document that must contain the help of the commands.
const commandReference = "../../../docs/commands.md"

const referenceHead = `<!-- Written by "make generate" from the commands: manual changes are lost. -->
# Commands and their flags

What ` + "`berth COMMAND --help`" + ` says, for every command. Files are described in
[configuration](configuration.md) and [descheduling](descheduling.md), field by field in
[fields](fields.md).

## Completion

[berth completion](#berth-completion) prints a script for bash, zsh, fish or PowerShell. With it the shell completes
commands and flags, and arguments as names of files, not of pods. The help of the command for each shell says where the
script belongs. This is enough for one session of bash:

` + "```" + `
source <(berth completion bash)
` + "```" + `

For a plugin, kubectl's own completion (1.26 and later) asks a second program in the ` + "`PATH`" + `: for
` + "`kubectl-berth`" + ` that is ` + "`kubectl_complete-berth`" + `.
[deploy/krew/kubectl_complete-berth](../deploy/krew/kubectl_complete-berth) is that program, two lines of shell:

` + "```" + `
install -m 755 deploy/krew/kubectl_complete-berth /usr/local/bin/
` + "```" + `

`

func TestCommandReferenceIsCurrent(t *testing.T) {
	t.Setenv("HOME", "/home/user") // some defaults are under it
	var b bytes.Buffer
	b.WriteString(referenceHead)
	root := newRootCommand()
	root.InitDefaultCompletionCmd() // as running it does
	if err := describe(&b, root); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(commandReference, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(commandReference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("docs/commands.md is stale, run make generate; file (-) and commands (+):\n%s", diff)
	}
}

// describe writes a command and its subcommands, as help shows them.
func describe(b *bytes.Buffer, c *cobra.Command) error {
	c.DisableAutoGenTag = true
	c.InitDefaultHelpFlag()
	var one bytes.Buffer
	link := func(file string) string {
		return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
	}
	if err := doc.GenMarkdownCustom(c, &one, link); err != nil {
		return err
	}
	text := strings.ReplaceAll(one.String(), "### SEE ALSO", "### See also") // cobra has capitals for this part alone
	b.WriteString(strings.TrimRight(text, "\n") + "\n\n")
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			if err := describe(b, child); err != nil {
				return err
			}
		}
	}
	return nil
}
