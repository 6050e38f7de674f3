package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/cmd/berth/internal/inquire"
	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/cmd/berth/internal/survey"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/priorities"
)

// watchEvery is the default interval of `berth status --watch`. Each report asks all services once, so it should be
// longer than their answers take.
const watchEvery = 2 * time.Second

// clearScreen moves a terminal's cursor home and clears the screen (ECMA-48).
const clearScreen = "\x1b[H\x1b[2J"

// statusCommand is the command `berth status`. It embeds the flags of commands that read the stores, and adds those of
// --watch.
type statusCommand struct {
	storeFlags
	// watch repeats the report every so often, until the command is interrupted.
	watch bool
	every time.Duration
	// servicesError is the reason why the services were not asked.
	servicesError error
}

// newStatusCommand returns the command `berth status`. It asks the leading queue and the shards over NATS, which takes
// up to three seconds if one does not answer; it reads the ledger, and lists pods and quotas from the API server. Each
// of the three is left out if the flags do not locate it.
//
// The exit code is 1 only if something that was located cannot be read: anomalies and warnings are no errors, and are
// for alerts. With --watch the command exits with 0 when it is interrupted, and with 1 at the first report that fails.
func newStatusCommand() *cobra.Command {
	o := &statusCommand{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the services, pods and ledger, with warnings",
		Long: "Asks the leading queue and the shards which members are running and which partitions each owns, how far\n" +
			"each is behind the log, how many pods are in which pool, what the ledger holds and for how long, what is\n" +
			"claimed from disruption budgets, and which anomalies there are (overdue pods, preemption and binds that\n" +
			"fail repeatedly). With a kubeconfig it also lists pods and ResourceQuotas and shows how pods and their\n" +
			"requests are distributed over priorities, with warnings where preemption can no longer help. It only\n" +
			"reads.",
		Example: "  kubectl berth status\n  berth status --data-dir berth-data --watch\n" +
			"  berth status --nats-url nats://nats:4222 -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	o.addLedger(f)
	o.addNATS(f)
	o.addInstallation(f, locatedByDefault)
	f.StringVarP(&o.output, "output", "o", "", "json or yaml; default: text")
	f.BoolVarP(&o.watch, "watch", "w", false, "refresh until interrupted")
	f.DurationVar(&o.every, "every", watchEvery, "refresh interval of --watch")
	return cmd
}

// run prints one report, or one after the other until ctx ends. An installation in the default namespace is only a
// guess: if it cannot be reached, the report says so and shows the rest. One that a flag names must answer.
func (o *statusCommand) run(ctx context.Context, w io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.watch && o.every <= 0 {
		return fmt.Errorf("--every: %s: want more than 0", o.every)
	}
	// locate may choose an installation; named remembers whether the user did.
	named := o.installation.Namespace != ""
	if err := o.locate(); err != nil {
		return err
	}
	defer o.disconnect()
	ask, closeAll, err := o.services(ctx)
	// The error is final if the user named the place, or if there is no other one to show.
	if err != nil && (named || o.installation.Namespace == "") {
		return err
	}
	if err != nil { // the cluster may have no installation in the default namespace
		o.servicesError, o.installation.Namespace = err, ""
	} else {
		defer closeAll()
	}
	// Each round is a report of its own; nothing is kept between two of them but the connection to the log.
	for {
		report, err := o.report(ctx, ask)
		if err != nil {
			return err
		}
		// JSON and YAML are for programs, which read one document after the other.
		if o.watch && o.output == "" {
			_, _ = io.WriteString(w, clearScreen) // an error shows in the next write
		}
		if err := writeStatus(w, report, o.output); err != nil || !o.watch {
			return err
		}
		select {
		case <-time.After(o.every):
		case <-ctx.Done():
			return nil
		}
	}
}

// overviewSource asks the services for their status; nil if it is not known where they are.
type overviewSource func(context.Context) (*explain.Overview, error)

// services connects to the log, through which services are asked. It returns a function that closes the connection.
// The ledger is opened with each report, as a report may be long after the one before.
func (o *statusCommand) services(ctx context.Context) (overviewSource, func(), error) {
	if o.dataDir == "" && len(o.nats.urls) == 0 && o.installation.Namespace == "" {
		return nil, func() {}, nil
	}
	logger, err := o.logger()
	if err != nil {
		return nil, nil, err
	}
	log, err := o.openLog(ctx, logger)
	if err != nil {
		return nil, nil, err
	}
	// The log's connection is also the bus to the services.
	inquiry := &inquire.Inquiry{Log: log, History: log, Bus: log}
	// The ledger is opened for each report: a connection that was idle for hours may be dead.
	return func(ctx context.Context) (*explain.Overview, error) {
		leader, err := o.descheduler(ctx)
		if err != nil {
			return nil, err
		}
		return inquiry.Overview(ctx, leader)
	}, log.Close, nil
}

// descheduler returns the leading descheduler, by the ledger; empty if there is none, or no ledger was named. The
// leader is the candidate whose key is the oldest, as in etcd's elections.
func (o *statusCommand) descheduler(ctx context.Context) (string, error) {
	store, err := o.openLedger(ctx)
	if store == nil || err != nil {
		return "", err
	}
	defer func() { _ = store.Close() }() // only the connection
	// An election is a prefix with one key for each candidate; the oldest key leads until its lease ends.
	candidates, _, err := store.List(ctx, roster.PrefixElection+"descheduler/")
	if err != nil {
		return "", fmt.Errorf("--etcd-endpoints: %w", err)
	}
	leader, first := "", int64(0)
	for _, c := range candidates {
		if first == 0 || c.CreateRevision < first {
			leader, first = string(c.Value), c.CreateRevision
		}
	}
	return leader, nil
}

// report collects all available answers. That the API server forbids listing pods is a warning if the services were
// asked: an operator may have access to Berth alone.
func (o *statusCommand) report(ctx context.Context, ask overviewSource) (statusReport, error) {
	var r statusReport
	var err error
	if ask != nil {
		if r.Services, err = ask(ctx); err != nil {
			return r, err
		}
	}
	// The API server is optional where the services were asked: without a kubeconfig, or without permission to list
	// pods, the rest is shown.
	cluster, err := o.priorities(ctx)
	switch {
	case err == nil:
		r.Report = cluster
	case ask != nil && apierrors.IsForbidden(err):
		r.Warnings = append(r.Warnings, "priorities and quotas are not shown: "+err.Error())
	case ask == nil || !errors.Is(err, errNoCluster):
		return r, err
	}
	if o.servicesError != nil {
		r.Warnings = append(r.Warnings, "the services were not queried: "+o.servicesError.Error())
	}
	return r, o.addLedgerState(ctx, &r)
}

// addLedgerState adds the state of the stop switch and, with a certificate, whether etcd authenticates its clients, if
// a ledger was named.
func (o *statusCommand) addLedgerState(ctx context.Context, r *statusReport) error {
	store, err := o.openLedger(ctx)
	if store == nil || err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // only the connection
	if r.Descheduling, err = switchLine(ctx, store); err != nil {
		return err
	}
	// As in a service (watches), only a client with a certificate checks.
	if !store.Identified() {
		return nil
	}
	on, err := store.Authenticates(ctx)
	if err == nil && !on {
		r.Warnings = append(r.Warnings, ledgerOpen)
	}
	return err
}

// ledgerOpen is the warning about an etcd that does not authenticate its clients. It names the alert, whose runbook
// entry describes what to do.
const ledgerOpen = "etcd authentication is off: any client that can connect can change the ledger " +
	"(alert BerthLedgerOpen of the runbook)"

// errNoCluster means that there is no kubeconfig, so the cluster is not asked.
var errNoCluster = errors.New("no kubeconfig")

// priorities lists all pods and ResourceQuotas, and reports how they are distributed over priorities. Without a
// kubeconfig the error is errNoCluster.
func (o *options) priorities(ctx context.Context) (priorities.Report, error) {
	client, err := o.client()
	if err != nil {
		if !o.hasKubeconfig() {
			err = fmt.Errorf("%w (%w)", err, errNoCluster)
		}
		return priorities.Report{}, err
	}
	// Ended pods are listed, too, and left out by package priorities.
	pods, err := survey.Pages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list pods: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return priorities.Report{}, err
	}
	quotas, err := survey.Pages(ctx, func(
		ctx context.Context, o metav1.ListOptions,
	) ([]corev1.ResourceQuota, string, error) {
		page, err := client.CoreV1().ResourceQuotas(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list quotas: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	return priorities.Of(pods, quotas), err
}

// hasKubeconfig reports whether a kubeconfig is given, or found where kubectl looks. It does not parse the file.
func (o *options) hasKubeconfig() bool {
	if o.kubeconfig != "" {
		return true
	}
	for _, path := range clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence() {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// statusReport is the output of `berth status`: what the services answered, the report about priorities (embedded, so
// that its fields are at the top level of JSON), and the stop switch.
type statusReport struct {
	// Services holds the answers of the services; nil if it is not known where they are.
	Services *explain.Overview `json:"services,omitempty"`
	priorities.Report
	// Descheduling describes the stop switch; empty if no ledger was named.
	Descheduling string `json:"descheduling,omitempty"`
}

// writeStatus prints a report: services, priorities, the stop switch, and last the warnings, which a terminal then
// shows.
func writeStatus(w io.Writer, r statusReport, format string) error {
	if done, err := render.Structured(w, r, format); done {
		return err
	}
	// The services' warnings come first: they are about all pods, the others about priorities.
	warnings := r.Warnings
	if r.Services != nil {
		if err := r.Services.Text(w, time.Now()); err != nil {
			return err
		}
		if len(r.Bands) > 0 {
			fmt.Fprintln(w)
		}
		warnings = append(append([]string(nil), r.Services.Warnings...), warnings...)
	}
	if err := render.Priorities(w, r.Report); err != nil {
		return err
	}
	if err := writeSwitch(w, r.Descheduling); err != nil {
		return err
	}
	for _, warning := range warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}
