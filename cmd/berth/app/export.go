package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// exportCommand is the command `berth export`; file is the bundle to write.
type exportCommand struct {
	logCommand
	file string
}

// newExportCommand returns the command `berth export`. It reads the log alone, from its beginning to its end at that
// time, and writes one file, which is much smaller than the log: records compress to a tenth or less. Services are not
// disturbed, other than by the reading.
//
// The exit code is 1 if a stream cannot be read to its end, or the configuration is not valid; then no file is left.
func newExportCommand() *cobra.Command {
	e := &exportCommand{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the contents of the log to a file, to replay or to attach to a bug report",
		Long: "Writes a bundle: all facts, decisions and ledger changes that the log still has, and the configuration\n" +
			"files given. `berth replay` and `berth simulate` read it anywhere, without a cluster.\n\n" +
			"The bundle contains the names, labels, annotations, images, requests and status of pods and nodes.\n" +
			"Environment variables, commands, probes and the last applied configuration are removed, even where\n" +
			"extenders or plugins receive whole pods. Secrets are never read. Client keys and passwords of extenders\n" +
			"are removed from the configuration; arguments of compiled-in plugins stay. The addresses of the stores are\n" +
			"not included.",
		Example: "  berth export --file incident.tar --config scheduler.yaml --nats-url nats://nats:4222",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return e.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVarP(&e.file, "file", "f", "", "file to write; it must not exist")
	f.StringVar(&e.config, "config", "", "KubeSchedulerConfiguration of the shards, to include in the bundle")
	f.StringVar(&e.descheduling.policy, "policy", "", "DeschedulerPolicy, to include in the bundle")
	e.addLog(f)
	_ = cmd.MarkFlagRequired("file") // fails only for a flag that does not exist
	return cmd
}

// run writes the bundle, and prints its size and the span of each stream.
func (e *exportCommand) run(ctx context.Context, w io.Writer) (err error) {
	// The versions help to read the bundle later: a newer berth may decide differently.
	contents := past.Contents{Version: berthVersion(), Kubernetes: kubernetesVersion, Now: time.Now()}
	if contents.Config, contents.Policy, err = e.files(); err != nil {
		return err
	}
	return e.openSource(ctx, "", func(src rerun.Source, _ []placement.ProfileConfig) error {
		manifest, size, err := e.write(ctx, src, contents)
		if err != nil {
			return fmt.Errorf("--file: %s: %w", e.file, err)
		}
		// The spans show how far back the bundle reaches, which depends on the log's retention.
		out := render.NewLines(w)
		out.Printf("%s: %d bytes\n", e.file, size)
		for _, s := range eventlog.Streams() {
			span := manifest.Streams[s]
			out.Printf("  %-9s  %d to %d\n", s, span.First, span.Last)
		}
		if n := manifest.Unreadable; n > 0 {
			out.Printf("%d facts cannot be decoded by this version; they are included without their objects\n", n)
		}
		return out.Err()
	})
}

// files reads the configuration and the policy, and refuses invalid ones: the bundle's reader could not use them.
func (e *exportCommand) files() (config, policyFile []byte, err error) {
	if _, err := e.readFiles(); err != nil {
		return nil, nil, err
	}
	if e.config != "" {
		if config, err = os.ReadFile(e.config); err != nil {
			return nil, nil, fmt.Errorf("--config: %w", err)
		}
	}
	if e.descheduling.policy != "" {
		if policyFile, err = os.ReadFile(e.descheduling.policy); err != nil {
			return nil, nil, fmt.Errorf("--policy: %w", err)
		}
	}
	return config, policyFile, nil
}

// write writes the bundle to a new file that only the user may read, and removes it if it is incomplete.
func (e *exportCommand) write(
	ctx context.Context, src rerun.Source, c past.Contents,
) (m past.Manifest, size int64, err error) {
	// A bundle shows names and labels of the cluster, so only the user may read it. O_EXCL keeps an older bundle.
	const private = 0o600
	file, err := os.OpenFile(e.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		return m, 0, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(e.file) // the first error is the one to report
		}
	}()
	buffered := bufio.NewWriter(file)
	if m, err = past.Export(ctx, buffered, src, c); err != nil {
		return m, 0, err
	}
	if err = buffered.Flush(); err != nil {
		return m, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return m, 0, err
	}
	return m, info.Size(), nil
}
