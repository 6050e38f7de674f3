package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
	"github.com/berth-scheduler/berth/pkg/ledger/pause"
)

// newPauseCommand returns the command `berth deschedule pause`. It writes one key of the ledger and contacts no other
// server; deschedulers see it by their watch. Pausing twice replaces the reason. The exit code is 1 if the ledger
// cannot be written.
func newPauseCommand() *cobra.Command {
	o := &options{}
	var by, reason string
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Stop all descheduling until it is resumed",
		Long: "Sets the stop switch in the ledger: no descheduler, including those started later, requests evictions. A\n" +
			"running cycle stops before it requests more; evictions already requested are carried out. `berth status`\n" +
			"shows the switch.",
		Example: "  berth deschedule pause --reason 'upgrade of the storage' --by alice --data-dir berth-data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.onSwitch(cmd.Context(), func(ctx context.Context, store *etcd.Store) error {
				// The time is that of the operator's machine, for people; nothing compares it.
				p := pause.Pause{Since: time.Now(), By: by, Reason: reason}
				if err := pause.Begin(ctx, store, p); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "descheduling is paused "+p.String())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "who pauses descheduling, shown to other operators")
	cmd.Flags().StringVar(&reason, "reason", "", "why descheduling is paused, shown to other operators")
	o.addSwitch(cmd.Flags())
	return cmd
}

// newResumeCommand returns the command `berth deschedule resume`. It deletes the key of the switch, and succeeds if
// there is none.
func newResumeCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:     "resume",
		Short:   "Resume descheduling after a pause",
		Example: "  berth deschedule resume --data-dir berth-data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.onSwitch(cmd.Context(), func(ctx context.Context, store *etcd.Store) error {
				if err := pause.End(ctx, store); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "descheduling is resumed")
				return err
			})
		},
	}
	o.addSwitch(cmd.Flags())
	return cmd
}

// addSwitch adds the flags that locate the ledger; Kubernetes is not needed.
func (o *options) addSwitch(f *pflag.FlagSet) {
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "endpoints of the etcd cluster that keeps the ledger")
	f.StringVar(&o.ledgerPrefix, "etcd-prefix", etcd.DefaultPrefix, "key prefix of this Berth in etcd")
	f.StringVar(&o.tls.etcdCA, "etcd-ca-file", "", "CA certificates (PEM) for etcd")
	f.StringVar(&o.tls.etcdCert, "etcd-cert-file", "", "client certificate (PEM) for etcd")
	f.StringVar(&o.tls.etcdKey, "etcd-key-file", "", "client key (PEM) for etcd")
	f.StringVar(&o.dataDir, "data-dir", "", "`directory` of a running berth up with an embedded ledger")
}

// onSwitch opens the ledger for one change of the stop switch.
func (o *options) onSwitch(ctx context.Context, do func(context.Context, *etcd.Store) error) error {
	store, err := o.openLedger(ctx)
	if err != nil {
		return err
	}
	if store == nil {
		return errors.New("--etcd-endpoints: not set: want the endpoints of the ledger, " +
			"or the --data-dir of a running berth up")
	}
	defer func() { _ = store.Close() }() // only the connection
	return do(ctx, store)
}

// switchLine describes, for `berth status`, whether descheduling is paused.
func switchLine(ctx context.Context, store ledger.Store) (string, error) {
	p, _, err := pause.Current(ctx, store)
	if err != nil {
		return "", err
	}
	if p == nil {
		return "descheduling is not paused", nil
	}
	return "descheduling is paused " + p.String(), nil
}

// writeSwitch prints the line of switchLine, if there is one.
func writeSwitch(w io.Writer, line string) error {
	if line == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, line)
	return err
}
