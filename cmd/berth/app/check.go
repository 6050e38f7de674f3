package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/cmd/berth/internal/render"
	"github.com/berth-scheduler/berth/pkg/audit"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// checkPage is the page size of lists: a page of pods is some megabytes.
const checkPage = 2000

// newCheckCommand returns the command `berth check`. It lists seven kinds of objects once, in pages, for which the
// user needs permission in all namespaces, and, if the flags name a ledger, two prefixes of it twice. It may run
// against a busy cluster at any time: what changes while it reads does not look like a violation.
//
// The exit code is 0 without violations, and 1 with some, or if something cannot be read. A cluster in which other
// schedulers bind pods may have warnings that nothing can be done about.
func newCheckCommand() *cobra.Command {
	o := &options{}
	var output string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the current state of the cluster, from the API server and the ledger",
		Long: "Lists nodes and pods, and with --berth-namespace, --etcd-endpoints or --data-dir also the ledger, and\n" +
			"recomputes all totals from scratch. It reports nodes with more requested than allocatable, pods on nodes\n" +
			"that they do not fit, pods that violate anti-affinity, volume claims and devices that two pods use,\n" +
			"reservations that contradict each other, and evictions that disruption budgets do not allow. It only\n" +
			"reads. It exits with 1 if it finds a violation; warnings do not count. To check a history, use `berth\n" +
			"audit`.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			report, err := o.check(cmd.Context())
			if err != nil {
				return err
			}
			if err := render.Check(cmd.OutOrStdout(), report, output); err != nil {
				return err
			}
			if n := report.Violations(); n > 0 {
				return fmt.Errorf("check: %d violations", n)
			}
			return nil
		},
	}
	o.addLedger(cmd.Flags())
	o.addInstallation(cmd.Flags(), "without this flag, --etcd-endpoints and --data-dir the ledger is not read")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml; default: text")
	return cmd
}

// check reads the ledger, the cluster, and the ledger again, in this order: audit.Check counts a reservation only if
// it was there all the time. Without a ledger both lists are nil, and only the API server is checked.
func (o *options) check(ctx context.Context) (*audit.CheckReport, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	defer o.disconnect()
	store, err := o.openLedger(ctx)
	if err != nil {
		return nil, err
	}
	// A check without a ledger has no reservations, victims or budgets' documents to look at.
	var in audit.CurrentState
	if store != nil {
		defer func() { _ = store.Close() }() // only read
	}
	if in.Before, err = listLedger(ctx, store); err != nil {
		return nil, err
	}
	if err := listCluster(ctx, client, &in); err != nil {
		return nil, err
	}
	if in.After, err = listLedger(ctx, store); err != nil {
		return nil, err
	}
	// From here on nothing is read any more: the check is a pure function of the lists.
	report := audit.Check(in)
	report.Ledger = store != nil
	report.Findings = append(report.Findings, ownPods(in.Pods)...)
	return report, nil
}

// listLedger lists the documents of nodes and of budgets. The two lists are not of one revision; the check compares
// each only with itself.
func listLedger(ctx context.Context, store *etcd.Store) ([]ledger.KV, error) {
	if store == nil {
		return nil, nil
	}
	var all []ledger.KV
	for _, prefix := range []string{ledger.PrefixNode, ledger.PrefixBudget} {
		kvs, _, err := store.List(ctx, prefix)
		if err != nil {
			return nil, err
		}
		all = append(all, kvs...)
	}
	return all, nil
}

// listCluster lists claims before pods, and pods before nodes and volumes, so that a claim's pods and a pod's node are
// in the result: an object that is created in between can only be one that nothing listed before refers to. The user
// needs permission to list all of these kinds in all namespaces.
func listCluster(ctx context.Context, client kubernetes.Interface, in *audit.CurrentState) error {
	if err := listClaims(ctx, client, in); err != nil {
		return err
	}
	if err := listPlaces(ctx, client, in); err != nil {
		return err
	}
	var err error
	volumes := client.CoreV1().PersistentVolumes()
	in.Volumes, err = listPages(ctx, func(
		ctx context.Context, o metav1.ListOptions,
	) ([]corev1.PersistentVolume, string, error) {
		page, err := volumes.List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list persistent volumes: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	return err
}

// listClaims lists claims to volumes and to devices. There are no claims to devices where their API is absent
// (Kubernetes before 1.34, or with the feature disabled), which is not an error.
func listClaims(ctx context.Context, client kubernetes.Interface, in *audit.CurrentState) error {
	var err error
	claims := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll)
	in.VolumeClaims, err = listPages(ctx, func(
		ctx context.Context, o metav1.ListOptions,
	) ([]corev1.PersistentVolumeClaim, string, error) {
		page, err := claims.List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list persistent volume claims: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return err
	}
	devices := client.ResourceV1().ResourceClaims(metav1.NamespaceAll)
	in.DeviceClaims, err = listPages(ctx, func(
		ctx context.Context, o metav1.ListOptions,
	) ([]resourcev1.ResourceClaim, string, error) {
		page, err := devices.List(ctx, o)
		if apierrors.IsNotFound(err) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("list resource claims: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	return err
}

// listPlaces lists pods, nodes, namespaces and disruption budgets, in this order: a node that a pod was just bound to
// is then listed, too. Namespaces are needed for terms that select them by label.
func listPlaces(ctx context.Context, client kubernetes.Interface, in *audit.CurrentState) error {
	var err error
	in.Pods, err = listPages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list pods: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return err
	}
	in.Nodes, err = listPages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Node, string, error) {
		page, err := client.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list nodes: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return err
	}
	namespaces := client.CoreV1().Namespaces()
	in.Namespaces, err = listPages(ctx, func(
		ctx context.Context, o metav1.ListOptions,
	) ([]corev1.Namespace, string, error) {
		page, err := namespaces.List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list namespaces: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return err
	}
	budgets := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll)
	in.Budgets, err = listPages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]recording.Budget, string, error) {
		page, err := budgets.List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list disruption budgets: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	return err
}

// listPages lists all pages of a collection, in the version of the first page. An error of the API server ends it.
func listPages[T any](
	ctx context.Context, list func(context.Context, metav1.ListOptions) ([]T, string, error),
) ([]T, error) {
	var all []T
	opts := metav1.ListOptions{Limit: checkPage}
	for {
		items, next, err := list(ctx, opts)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if opts.Continue = next; next == "" {
			return all, nil
		}
	}
}
