package intake

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/klog/v2"
)

// served are the kinds that the API server has. It asks until it gets an answer; an error is
// that of ctx. What the server's version leaves out by default is said, too.
func (c *Cluster) served(ctx context.Context, logger klog.Logger) ([]watched, error) {
	list := slices.Clone(kinds)
	if err := c.tellVersion(ctx, logger); err != nil {
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
			logger.Info("The API server does not have this group: there are no objects of it, for the rules about them",
				"group", optional.group)
			continue
		}
		for _, w := range optional.kinds {
			if has[w.resource] {
				list = append(list, w)
				continue
			}
			logger.Info("The API server does not have this kind: there are none, for the rules about it",
				"resource", w.resource, "group", optional.group)
		}
	}
	return list, nil
}

// tellVersion says of an API server that is older than the rules what it has switched off by default:
// it drops those fields from what is created, so that the rules never find them.
func (c *Cluster) tellVersion(ctx context.Context, logger klog.Logger) error {
	var info *apiversion.Info
	err := wait.PollUntilContextCancel(ctx, identifyEvery, true, func(context.Context) (bool, error) {
		var err error
		info, err = c.client.Discovery().ServerVersion()
		return err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err), nil
	})
	if err != nil || info == nil {
		return err
	}
	if off := offByDefault(info.Major, info.Minor); len(off) > 0 {
		logger.Info("The API server is of an older version, which has these features off by default: "+
			"what they are about is not in its objects, unless they are switched on",
			"version", info.GitVersion, "features", strings.Join(off, ","))
	}
	return nil
}

// since are the features that rules read fields of, with the minor version of Kubernetes 1 in which they
// came to be on by default. Source: pkg/features/kube_features.go of 1.36.3. Those that have been on for
// longer than there is resource.k8s.io/v1 (1.34) are left out.
var since = []struct {
	feature string
	minor   int
}{
	{"DRAConsumableCapacity", 36},
	{"DRADeviceBindingConditions", 36},
	{"DRADeviceTaints", 36},
	{"DRAExtendedResource", 36},
	{"DRAPartitionableDevices", 36},
	{"NodeDeclaredFeatures", 36},
}

// offByDefault are the features that a version of the API server does not have on by default, none if the
// version cannot be told. Some vendors add a sign to the minor version.
func offByDefault(major, minor string) (off []string) {
	n, err := strconv.Atoi(strings.TrimRight(minor, "+"))
	if major != "1" || err != nil {
		return nil
	}
	for _, f := range since {
		if n < f.minor {
			off = append(off, f.feature)
		}
	}
	return off
}

// resources are the resources of a group and version; none if it is not there.
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
