package intake

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// served returns the kinds that the API server serves. Core groups are always there. The groups for volumes and
// devices are asked for, because a cluster may have them in part or not at all, and a reflector for a kind that is not
// served would never list, so that the epoch would never end. It retries until it gets an answer; an error is that of
// ctx. It also logs what the server's version leaves out by default.
func (c *Cluster) served(ctx context.Context, logger klog.Logger) ([]watched, error) {
	list := slices.Clone(kinds)
	if err := c.awaitRelease(ctx, logger); err != nil {
		return nil, err
	}
	for _, optional := range []struct {
		group string
		kinds []watched
	}{{storageVersion, storageKinds}, {deviceVersion, deviceKinds}} {
		has, err := c.resources(ctx, optional.group)
		if err != nil {
			return nil, err
		}
		if len(has) == 0 {
			logger.Info("API server does not have this group: its objects are taken as absent",
				"group", optional.group)
			continue
		}
		for _, w := range optional.kinds {
			if has[w.resource] {
				list = append(list, w)
				continue
			}
			logger.Info("API server does not have this kind: its objects are taken as absent",
				"resource", w.resource, "group", optional.group)
		}
	}
	rules, err := c.servedOffByDefault(ctx)
	c.gates.log(logger)
	return append(list, rules...), err
}

// servedOffByDefault returns the kinds to watch among those that belong to features which are off by default, and notes
// which such features the other kinds show. It logs nothing about kinds that are not served.
func (c *Cluster) servedOffByDefault(ctx context.Context) ([]watched, error) {
	has, err := c.resources(ctx, taintRuleVersion)
	if err != nil {
		return nil, err
	}
	var list []watched
	for _, w := range taintRuleKinds {
		if has[w.resource] {
			list = append(list, w)
		}
	}
	shown := map[string]map[string]bool{}
	for _, version := range []string{oldTaintRuleVersion, groupVersion, oldGroupVersion} {
		if shown[version], err = c.resources(ctx, version); err != nil {
			return nil, err
		}
	}
	for _, w := range groupKinds {
		if shown[groupVersion][w.resource] {
			list = append(list, w)
		}
	}
	c.gates.serves(olderKinds{
		taintRules: !has[taintRules] && shown[oldTaintRuleVersion][taintRules],
		groups:     !shown[groupVersion][groups] && shown[oldGroupVersion][groups],
	})
	return list, nil
}

// resources returns the resources of a group and version; none if the server does not have it.
func (c *Cluster) resources(ctx context.Context, group string) (map[string]bool, error) {
	var list *metav1.APIResourceList
	err := wait.PollUntilContextCancel(ctx, identifyEvery, true, func(context.Context) (bool, error) {
		var err error
		list, err = c.client.Discovery().ServerResourcesForGroupVersion(group)
		if apierrors.IsNotFound(err) {
			list, err = &metav1.APIResourceList{}, nil
		}
		return err == nil, nil
	})
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, r := range list.APIResources {
		has[r.Name] = true
	}
	return has, nil
}
