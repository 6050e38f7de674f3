package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the command that the process's arguments name, until it is done or the process gets SIGINT or SIGTERM, and
// returns the exit code: 0, or 1 after an error, which it prints. The first signal ends the command's context; further
// ones are ignored, so that a service can finish what it is doing (SIGKILL ends it at any time, which is safe).
func Main(options ...Option) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := apply(options)
	if err == nil {
		err = newRootCommand().ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth:", err)
		return 1
	}
	return 0
}

// newRootCommand returns the whole tree of commands. Cobra prints neither usage nor errors (SilenceUsage,
// SilenceErrors): an error names the flag and what is accepted, and a page of usage would hide it.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Berth schedules the pods of a Kubernetes cluster",
		Long: "Berth replaces kube-scheduler and the descheduler with four cooperating services: queue, scheduler (up to\n" +
			"256 active shards), binder and descheduler.\n\n" +
			"Start with `berth up --kubeconfig FILE`, which runs all four in one process with embedded stores.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// kubectl runs kubectl-berth for `kubectl berth`; help texts then show what the user typed.
	if isPlugin(os.Args[0]) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"}
	}
	root.AddCommand(newUpCommand(), newRunCommand(), newDescheduleCommand(), newExplainCommand(), newTraceCommand(),
		newExportCommand(), newReplayCommand(), newSimulateCommand(), newConfigCommand(),
		newCheckCommand(), newAuditCommand(), newStatusCommand(), newLogLevelCommand(), newCertsCommand(),
		newSecureLedgerCommand(), newDrainShardCommand(), newVersionCommand())
	// Cobra adds this command when the root is executed, which is too late for the reference of the commands.
	root.InitDefaultCompletionCmd()
	return root
}

// isPlugin reports whether the program was started by kubectl, which finds it as kubectl-berth.
func isPlugin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-berth"
}
