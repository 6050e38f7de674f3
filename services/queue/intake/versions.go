package intake

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// VersionedKinds are the kinds for which the ledger has high-waters.
var VersionedKinds = []events.Kind{
	events.KindPod, events.KindNode, events.KindDisruptionBudget, events.KindResourceClaim,
}

// Versions returns the resourceVersion that the API server has reached for each of VersionedKinds that it serves, by
// a consistent read of at most one object each. The kinds are read one after another, so the result is not of one
// moment; it is only compared with versions that were reached before the first read. It fails if any kind cannot be
// read.
func (c *Cluster) Versions(ctx context.Context) (map[events.Kind]uint64, error) {
	versions := map[events.Kind]uint64{}
	for _, kind := range VersionedKinds {
		attempt, cancel := context.WithTimeout(ctx, identifyTimeout)
		list, err := c.listOne(attempt, kind)
		cancel()
		if apierrors.IsNotFound(err) {
			continue // not served
		}
		if err != nil {
			return nil, fmt.Errorf("queue: read the resourceVersion of %ss: %w", kind, err)
		}
		text := list.GetResourceVersion()
		if versions[kind], err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("queue: a list of %ss has resourceVersion %q, want a decimal number", kind, text)
		}
	}
	return versions, nil
}

// listOne lists at most one object of a kind. A list without a resourceVersion is a consistent read, and its own
// resourceVersion is that of the storage at that moment, even if there is no object.
func (c *Cluster) listOne(ctx context.Context, kind events.Kind) (metav1.ListInterface, error) {
	one := metav1.ListOptions{Limit: 1}
	switch kind {
	case events.KindNode:
		return c.client.CoreV1().Nodes().List(ctx, one)
	case events.KindDisruptionBudget:
		return c.client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, one)
	case events.KindResourceClaim:
		return c.client.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, one)
	default:
		return c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, one)
	}
}
