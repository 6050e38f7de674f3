package app

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// version is the version set by WithVersion, before the command runs. The linker sets it in releases.
var version = ""

// kubernetesVersion is the release whose scheduling rules this build implements.
var kubernetesVersion = fmt.Sprintf("1.%d", placement.RulesMinor)

// berthVersion returns the version of this binary: that of its release, else the module version that the Go toolchain
// recorded, else "unknown". Decisions in the log carry it, so that a replay can say that another version made them.
func berthVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// newVersionCommand returns the command `berth version`. It contacts no server.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "berth %s (Kubernetes %s, %s %s/%s)\n",
				berthVersion(), kubernetesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
