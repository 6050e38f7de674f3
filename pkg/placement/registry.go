package placement

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
)

// RulesMinor is the minor version of Kubernetes 1 whose scheduling rules these are.
const RulesMinor = 36

// factory creates a plugin from its arguments, nil for the defaults. An error names the argument and what is
// accepted.
type factory func(args runtime.Object) (rule.Plugin, error)

// registry returns the known plugins. A new rule is added here and to DefaultProfile or, if upstream does not
// enable it by default, here only; package config has a list of its own with the points of each plugin.
func registry() map[string]factory {
	plain := func(p rule.Plugin) factory {
		return func(args runtime.Object) (rule.Plugin, error) {
			if args != nil {
				return nil, fmt.Errorf("args of type %T, want none", args)
			}
			return p, nil
		}
	}
	// passive plugins act elsewhere (queue, binder) or not yet; their arguments, if any, are used there.
	passive := func(name string) factory {
		return func(runtime.Object) (rule.Plugin, error) { return nodes.Idle{Plugin: name}, nil }
	}
	return map[string]factory{
		names.SchedulingGates:                 plain(nodes.Gates{}),
		names.PrioritySort:                    passive(names.PrioritySort),
		names.NodeUnschedulable:               plain(nodes.Unschedulable{}),
		names.NodeName:                        plain(nodes.Name{}),
		names.TaintToleration:                 plain(nodes.TaintToleration{}),
		names.NodeAffinity:                    nodes.NewAffinity,
		names.NodePorts:                       plain(nodes.Ports{}),
		names.NodeResourcesFit:                fit.New,
		names.NodeResourcesBalancedAllocation: fit.NewBalanced,
		names.ImageLocality:                   plain(nodes.ImageLocality{}),
		names.NodeDeclaredFeatures:            plain(nodes.DeclaredFeatures{}),
		names.PodTopologySpread:               spread.New,
		names.InterPodAffinity:                podaffinity.New,
		names.DefaultPreemption:               newPreemptionRule,
		names.VolumeRestrictions:              plain(volumes.Restrictions{}),
		names.NodeVolumeLimits:                plain(volumes.Limits{}),
		names.VolumeBinding:                   volumes.NewBinding,
		names.VolumeZone:                      plain(volumes.Zone{}),
		names.DynamicResources:                devices.New,
		names.DefaultBinder:                   passive(names.DefaultBinder),
		names.GangScheduling:                  plain(gang.Plugin{}),
	}
}

// canScore reports whether upstream's plugin of that name scores nodes. A profile in which none does needs only
// one feasible node (SampleSize).
func canScore(name string) bool {
	switch name {
	case names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit, names.VolumeBinding,
		names.PodTopologySpread, names.InterPodAffinity, names.DynamicResources,
		names.NodeResourcesBalancedAllocation, names.ImageLocality:
		return true
	}
	return false
}

// KnownPlugins returns the names that a ProfileConfig may use, sorted.
func KnownPlugins() []string { return slices.Sorted(maps.Keys(registry())) }

// DefaultProfile returns upstream's default profile: the same plugins in the same order with the same weights
// (pkg/scheduler/apis/config/v1/default_plugins.go, with the feature gates of 1.36).
func DefaultProfile(schedulerName string) ProfileConfig {
	return ProfileConfig{
		SchedulerName: schedulerName,
		Plugins: []PluginConfig{
			{Name: names.SchedulingGates},
			{Name: names.PrioritySort},
			{Name: names.NodeUnschedulable},
			{Name: names.NodeName},
			{Name: names.TaintToleration, Weight: 3},
			{Name: names.NodeAffinity, Weight: 2},
			{Name: names.NodePorts},
			{Name: names.NodeResourcesFit, Weight: 1},
			{Name: names.VolumeRestrictions},
			{Name: names.NodeVolumeLimits},
			{Name: names.VolumeBinding},
			{Name: names.VolumeZone},
			{Name: names.PodTopologySpread, Weight: 2},
			{Name: names.InterPodAffinity, Weight: 2},
			{Name: names.DynamicResources, Weight: 2},
			{Name: names.DefaultPreemption},
			{Name: names.NodeResourcesBalancedAllocation, Weight: 1},
			{Name: names.ImageLocality, Weight: 1},
			{Name: names.DefaultBinder},
			{Name: names.NodeDeclaredFeatures},
		},
	}
}
