package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Workers is how many requests Create has under way at once; a client for it
// needs a rate limit that does not throttle them.
const Workers = 32

// schedulableWithin bounds the wait for nodes to become schedulable; thousands
// of them on a busy machine take a minute.
const schedulableWithin = 5 * time.Minute

// Result counts what Create did.
type Result struct {
	Created int64 `json:"created"`
	// Existing nodes are left as they are.
	Existing int64 `json:"existing"`
}

// Create creates the nodes of a description and returns when every one of
// them is ready and free of the not-ready taint.
func Create(ctx context.Context, client kubernetes.Interface, description Description, kwok bool) (Result, error) {
	objects := description.Objects(!kwok, metav1.Now())
	var created, existing atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(Workers)
	for _, node := range objects {
		group.Go(func() error {
			fresh, err := createOne(groupCtx, client, node, !kwok)
			switch {
			case err != nil:
				return fmt.Errorf("create node %s: %w", node.Name, err)
			case fresh:
				created.Add(1)
			default:
				existing.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	result := Result{Created: created.Load(), Existing: existing.Load()}
	if err != nil {
		return result, err
	}
	return result, waitSchedulable(ctx, client, objects)
}

// createOne reports whether the node is new.
func createOne(ctx context.Context, client kubernetes.Interface, node *corev1.Node, untaint bool) (bool, error) {
	stored, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	fresh := err == nil
	if apierrors.IsAlreadyExists(err) {
		stored, err = client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	}
	if err != nil {
		return false, err
	}
	if !untaint || !slices.ContainsFunc(stored.Spec.Taints, notReady) {
		return fresh, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": stored.ResourceVersion},
		"spec": map[string]any{
			"taints": slices.DeleteFunc(slices.Clone(stored.Spec.Taints), notReady),
		},
	})
	if err != nil {
		return fresh, err
	}
	// A merge patch replaces the list as a whole; the resource version makes
	// sure that it is the list that was looked at.
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return fresh, err
}

// waitSchedulable lists from the API server's cache until all nodes are fit.
func waitSchedulable(ctx context.Context, client kubernetes.Interface, wanted []*corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, schedulableWithin)
	defer cancel()
	unfit := len(wanted)
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		fit := map[string]bool{}
		for i := range list.Items {
			fit[list.Items[i].Name] = schedulable(&list.Items[i])
		}
		unfit = 0
		for _, node := range wanted {
			if !fit[node.Name] {
				unfit++
			}
		}
		return unfit == 0, nil
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%d of %d nodes are not ready after %s (is KWOK running?): %w",
			unfit, len(wanted), schedulableWithin, err)
	}
	return err
}

func schedulable(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !slices.ContainsFunc(node.Spec.Taints, notReady)
}

func notReady(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady }
