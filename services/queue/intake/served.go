package intake

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

// offering is a group that an API server may serve in part or not at all, with the kinds that are watched of it.
type offering struct {
	version string
	kinds   []watched
	// rare means that few servers serve the kinds, so that it is no news if they are not served.
	rare bool
}

var offerings = []offering{
	{version: storageVersion, kinds: storageKinds},
	{version: deviceVersion, kinds: deviceKinds},
	{version: taintRuleVersion, kinds: taintRuleKinds, rare: true},
	{version: groupVersion, kinds: groupKinds, rare: true},
}

// resourceSet is a set of resources by group and version, such as the resources that an API server serves.
type resourceSet map[string]map[string]bool

// served returns the kinds that the API server serves and the queue may list. Core groups are always there. The groups
// for volumes and devices are asked for, because a cluster may have them in part or not at all, and a reflector for a
// kind that is not served would never list, so that the epoch would never end. It retries until it gets an answer; an
// error is that of ctx. It also logs what the server's version leaves out by default.
func (c *Cluster) served(ctx context.Context, logger klog.Logger) ([]watched, error) {
	if err := c.awaitRelease(ctx, logger); err != nil {
		return nil, err
	}
	var has resourceSet
	err := wait.PollUntilContextCancel(ctx, identifyEvery, true, func(ctx context.Context) (bool, error) {
		var err error
		has, err = c.discover(ctx)
		return err == nil, nil
	})
	if err != nil {
		return nil, err
	}
	has.logAbsent(logger)
	list := slices.Clone(kinds)
	for _, w := range has.watched() {
		if c.mayList(ctx, w) {
			list = append(list, w)
		}
	}
	c.gates.log(logger)
	return list, nil
}

const (
	// deniedAnswers is how many times in a row the API server must refuse a list, deniedPause apart: while roles are
	// replaced, rights are missing for a moment.
	deniedAnswers = 3
	deniedPause   = time.Second
)

// mayList reports whether the queue's account may list a kind. It tries only kinds that few API servers serve: an
// administrator may turn on a feature before granting the rights for its kinds. A reflector without the right would
// never complete a list, and the epoch would never end. If the server does not answer, mayList returns true.
func (c *Cluster) mayList(ctx context.Context, w watched) bool {
	if !w.rare() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	one := &metav1.ListOptions{Limit: 1}
	tries := wait.Backoff{Duration: c.deniedPause, Factor: 1, Steps: deniedAnswers}
	err := wait.ExponentialBackoffWithContext(ctx, tries, func(ctx context.Context) (bool, error) {
		list := w.group(c.client).Get().Resource(w.resource).VersionedParams(one, scheme.ParameterCodec)
		return !apierrors.IsForbidden(list.Do(ctx).Error()), nil
	})
	denied := err != nil && ctx.Err() == nil
	c.gates.setDenied(w.kind, denied)
	return !denied
}

// rare reports whether few API servers serve the kind.
func (w watched) rare() bool {
	return slices.ContainsFunc(offerings, func(o offering) bool { return o.rare && slices.ContainsFunc(o.kinds, w.is) })
}

// watched returns the kinds of the offerings that are in the set.
func (has resourceSet) watched() []watched {
	var list []watched
	for _, o := range offerings {
		for _, w := range o.kinds {
			if has[o.version][w.resource] {
				list = append(list, w)
			}
		}
	}
	return list
}

// logAbsent logs the groups and kinds that are not in the set.
func (has resourceSet) logAbsent(logger klog.Logger) {
	for _, o := range offerings {
		switch {
		case o.rare:
			continue
		case len(has[o.version]) == 0:
			logger.Info("API server does not have this group: its objects are taken as absent", "group", o.version)
			continue
		}
		for _, w := range o.kinds {
			if !has[o.version][w.resource] {
				logger.Info("API server does not have this kind: its objects are taken as absent",
					"resource", w.resource, "group", o.version)
			}
		}
	}
}

// discover asks once which resources the API server has of the groups that it may not serve, and notes which features
// that are off by default these show.
func (c *Cluster) discover(ctx context.Context) (resourceSet, error) {
	has := resourceSet{}
	for _, version := range []string{
		storageVersion, deviceVersion, taintRuleVersion, oldTaintRuleVersion, groupVersion, oldGroupVersion,
	} {
		var err error
		if has[version], err = c.resources(ctx, version); err != nil {
			return nil, err
		}
	}
	for _, o := range offerings {
		for _, w := range o.kinds {
			if !has[o.version][w.resource] {
				c.gates.setDenied(w.kind, false)
			}
		}
	}
	c.gates.serves(olderKinds{
		taintRules: !has[taintRuleVersion][taintRules] && has[oldTaintRuleVersion][taintRules],
		groups:     !has[groupVersion][groups] && has[oldGroupVersion][groups],
	})
	return has, nil
}

// resources returns the resources of a group and version; none if the server does not have it. (Discovery's own method
// takes no context.)
func (c *Cluster) resources(ctx context.Context, version string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	list := &metav1.APIResourceList{}
	err := c.client.Discovery().RESTClient().Get().AbsPath("/apis/" + version).Do(ctx).Into(list)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	has := map[string]bool{}
	for _, r := range list.APIResources {
		has[r.Name] = true
	}
	return has, nil
}
