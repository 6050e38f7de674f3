package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/cmd/berth/internal/embedded"
	"github.com/berth-scheduler/berth/cmd/berth/internal/record"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/audit"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// defaultHistoryMiB is the default bound of a recording: about an hour of a busy cluster. The audit holds the whole
// history in memory, so a larger one needs a larger machine.
const defaultHistoryMiB = 1024

// newAuditCommand returns the command `berth audit`. It reads one file and contacts no server, so it may run anywhere,
// also long after the recording. It holds the whole history in memory.
//
// The exit code is 0 without violations, and 1 with some, or if the file is no history. Warnings and an early end of
// the history do not count: a script must read the notes if it needs a complete history.
func newAuditCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "audit FILE",
		Short: "Replay a recorded history and check every revision of it",
		Long: "Replays offline a history that `berth audit record` wrote. It checks every revision of the ledger and\n" +
			"every version of pods and nodes against the invariants S1 to S12, S14 to S17 and I3, and checks\n" +
			"that placements fit and that values can be decoded (docs/operations.md lists the checks). It exits with 1\n" +
			"if it finds a violation. Warnings do not count, nor does a history that ends early, which the notes\n" +
			"report.",
		Example: "  berth audit record --out history --data-dir berth-data\n" +
			"  berth audit history",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }() // only read
			report, err := audit.Replay(file)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := render.Audit(cmd.OutOrStdout(), report, output); err != nil {
				return err
			}
			if n := report.Violations(); n > 0 {
				return fmt.Errorf("audit: %d violations", n)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; default: text")
	cmd.AddCommand(newRecordCommand())
	return cmd
}

// newRecordCommand returns the command `berth audit record`. It needs permission to list and watch seven kinds of
// objects in all namespaces, and to read the ledger's prefix in etcd. Besides the watches it causes three small
// linearizable reads every half second.
//
// It runs until it is interrupted, and then completes the history, which takes up to ten seconds, and exits with 0; it
// also exits with 0 when the file is full, since the history up to there can be audited. It exits with 1 if it cannot
// list both systems at the start, or cannot write. An outage of either system in between is no error: the history says
// what was missed.
func newRecordCommand() *cobra.Command {
	o := &options{}
	var out string
	var limit int64
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record the history of the ledger and of the API server",
		Long: "Writes every revision of the ledger and every version of pods, nodes and namespaces to a file, until it is\n" +
			"interrupted or the file reaches --max-mib. It only reads from the cluster. Locate the ledger with --etcd-\n" +
			"endpoints, or with the --data-dir of a running `berth up`.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.record(cmd.Context(), cmd.OutOrStdout(), out, limit)
		},
	}
	f := cmd.Flags()
	o.addLedger(f)
	f.StringVar(&out, "out", "", "file to write; it must not exist")
	f.Int64Var(&limit, "max-mib", defaultHistoryMiB, "size in MiB at which the recording ends")
	_ = cmd.MarkFlagRequired("out") // fails only for a flag that does not exist
	return cmd
}

// addLedger adds the flags of a command that reads the API server and the ledger.
func (o *options) addLedger(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster; default: $KUBECONFIG, ~/.kube/config, or the pod's service account")
	o.addEtcd(f)
	f.StringVar(&o.dataDir, "data-dir", "", "`directory` of a running berth up with an embedded ledger")
}

// addEtcd adds the flags that locate the ledger: its servers, its prefix, and the files of a TLS connection.
func (o *options) addEtcd(f *pflag.FlagSet) {
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "endpoints of the etcd cluster that keeps the ledger")
	f.StringVar(&o.ledgerPrefix, "etcd-prefix", etcd.DefaultPrefix, "key prefix of this Berth in etcd")
	f.StringVar(&o.tls.etcdCA, "etcd-ca-file", "", "CA certificates (PEM) for etcd")
	f.StringVar(&o.tls.etcdCert, "etcd-cert-file", "", "client certificate (PEM) for etcd")
	f.StringVar(&o.tls.etcdKey, "etcd-key-file", "", "client key (PEM) for etcd")
}

// openLedger connects to the ledger that the flags name, in this order: --etcd-endpoints, the embedded one of
// --data-dir, that of the installation; nil if they name none. The caller closes it; closing affects only the
// connection. An error names the flag that is wrong.
func (o *options) openLedger(ctx context.Context) (*etcd.Store, error) {
	if err := o.tls.validate(); err != nil {
		return nil, err
	}
	// The flags say where the ledger is in at most one way; no flag at all is not an error of this function, as some
	// commands do without a ledger.
	endpoints := o.etcdEndpoints
	switch {
	case len(endpoints) > 0 && o.dataDir != "":
		return nil, errors.New("--etcd-endpoints and --data-dir: want at most one of them")
	// The running `berth up` has written where its store listens.
	case o.dataDir != "":
		running, err := embedded.ReadEndpoints(o.dataDir)
		if err != nil {
			return nil, err
		}
		if endpoints = running.Etcd; len(endpoints) == 0 {
			return nil, fmt.Errorf("--data-dir: %s: its ledger is not embedded: want --etcd-endpoints instead", o.dataDir)
		}
	case len(endpoints) == 0 && o.installation.Namespace != "":
		return o.openInstalledLedger(ctx)
	case len(endpoints) == 0:
		return nil, nil
	}
	store, err := etcd.Open(ctx, etcd.Config{
		Endpoints: endpoints, Prefix: o.ledgerPrefix,
		CAFile: o.tls.etcdCA, CertFile: o.tls.etcdCert, KeyFile: o.tls.etcdKey,
	})
	return store, o.explainStore("--etcd-endpoints", err)
}

// client returns a client of the API server. It makes no request yet.
func (o *options) client() (kubernetes.Interface, error) {
	cfg, err := o.restConfig()
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // one list request per page, and two small reads per second: no limit is needed
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return client, nil
}

// record runs `berth audit record`: it identifies the cluster, creates the file, which must not exist (a history is
// evidence), and records. say gets one line when the recording has begun, for scripts that wait for it.
func (o *options) record(ctx context.Context, say io.Writer, path string, limitMiB int64) (err error) {
	if limitMiB < 1 {
		return fmt.Errorf("--max-mib: %d: want 1 or more", limitMiB)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	store, err := o.openLedger(ctx)
	if err != nil {
		return err
	}
	if store == nil {
		return errors.New("--etcd-endpoints: not set: want the endpoints of the ledger, or --data-dir")
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logger, err := telemetry.Logger("text", slog.LevelInfo)
	if err != nil {
		return err
	}
	// The UID of kube-system identifies the cluster: reading it also shows that the API server answers, before a file
	// is made.
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	header := recording.Header{Cluster: string(system.UID), Prefix: o.ledgerPrefix}
	writer, err := recording.NewWriter(file, limitMiB<<20, header)
	if err != nil {
		return err
	}
	return record.New(record.Deps{
		Ledger: store, API: client, Out: writer, Logger: logger,
		Started: func() { fmt.Fprintf(say, "recording to %s\n", path) },
	}).Run(ctx)
}

// checkOutput checks the value of --output for commands with a text, JSON and YAML form.
func checkOutput(output string) error {
	if output != "" && output != "json" && output != "yaml" {
		return fmt.Errorf("--output: %q: want json or yaml", output)
	}
	return nil
}
