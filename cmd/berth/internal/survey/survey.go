package survey

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/audit"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/etcd"
)

// pageSize is the page size of lists: a page of pods is some megabytes.
const pageSize = 2000

// Ledger lists the documents of nodes and of budgets. The two lists are not of one revision; the check compares
// each only with itself. Without a store the list is nil.
func Ledger(ctx context.Context, store *etcd.Store) ([]ledger.KV, error) {
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

// Cluster lists claims before pods, and pods before nodes and volumes, so that a claim's pods and a pod's node are
// in the result: an object that is created in between can only be one that nothing listed before refers to. The user
// needs permission to list all of these kinds in all namespaces.
func Cluster(ctx context.Context, client kubernetes.Interface, in *audit.CurrentState) error {
	if err := listClaims(ctx, client, in); err != nil {
		return err
	}
	if err := listPlaces(ctx, client, in); err != nil {
		return err
	}
	var err error
	volumes := client.CoreV1().PersistentVolumes()
	in.Volumes, err = Pages(ctx, func(
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
	in.VolumeClaims, err = Pages(ctx, func(
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
	in.DeviceClaims, err = Pages(ctx, func(
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
	in.Pods, err = Pages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list pods: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	if err != nil {
		return err
	}
	in.Nodes, err = Pages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Node, string, error) {
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
	in.Namespaces, err = Pages(ctx, func(
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
	in.Budgets, err = Pages(ctx, func(ctx context.Context, o metav1.ListOptions) ([]recording.Budget, string, error) {
		page, err := budgets.List(ctx, o)
		if err != nil {
			return nil, "", fmt.Errorf("list disruption budgets: %w", err)
		}
		return page.Items, page.Continue, nil
	})
	return err
}

// Pages lists all pages of a collection, in the version of the first page. An error of the API server ends it.
func Pages[T any](
	ctx context.Context, list func(context.Context, metav1.ListOptions) ([]T, string, error),
) ([]T, error) {
	var all []T
	opts := metav1.ListOptions{Limit: pageSize}
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
