package placementtest

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
)

// What this file draws, it draws for clusters with Size.Alpha alone: numeric tolerations (KEP-5471), drivers that must
// be registered on a node (KEP-5030), attributes of devices with several values (KEP-5491), and DeviceTaintRules
// (KEP-5055).

// numericTaint gives a taint a number as its value.
func (g *Generator) numericTaint(t *corev1.Taint) {
	if g.Size.Alpha && g.Chance(60) {
		t.Value = Pick(g, "0", "10", "950", "1000", "007", "9223372036854775808", "5x")
	}
}

// numericToleration makes a toleration compare numbers.
func (g *Generator) numericToleration(t *corev1.Toleration) {
	if g.Size.Alpha && g.Chance(50) {
		t.Operator = Pick(g, corev1.TolerationOpGt, corev1.TolerationOpLt)
		t.Value = Pick(g, "-1", "0", "9", "10", "950", "1000", "x", "")
	}
}

// requireDriver draws the driver that must be registered. It is one at most: upstream names any of several that are
// missing.
func (g *Generator) requireDriver(c *Cluster) {
	if !g.Size.Alpha {
		return
	}
	g.required = Pick(g, diskDriver, cappedDriver, ebsDriver)
	c.put(events.KindCSIDriver, g.csiDriver(ebsDriver))
}

// maybeRequired gives a driver the field, or not.
func (g *Generator) maybeRequired(d *storagev1.CSIDriver) {
	if yes := d.Name == g.required; g.Size.Alpha && g.Chance(80) {
		d.Spec.PreventPodSchedulingIfMissing = &yes
	}
}

// csiDrivers returns the drivers whose CSIDriver may change.
func (g *Generator) csiDrivers() []string {
	if g.Size.Alpha {
		return []string{diskDriver, cappedDriver, ebsDriver}
	}
	return []string{diskDriver, cappedDriver}
}

// listAttributes gives a device attributes with several values.
func (g *Generator) listAttributes(d *resourcev1.Device) {
	if !g.Size.Alpha {
		return
	}
	if g.Chance(60) {
		d.Attributes["links"] = Pick(g,
			resourcev1.DeviceAttribute{StringValues: []string{"a", "b"}},
			resourcev1.DeviceAttribute{StringValues: []string{"c"}},
			resourcev1.DeviceAttribute{VersionValues: []string{"1.0.0", "2.0.0"}},
			resourcev1.DeviceAttribute{BoolValues: []bool{true}},
		)
	}
}

// listSelector makes a class select devices by one of several values.
func (g *Generator) listSelector(c *resourcev1.DeviceClass) {
	if g.Size.Alpha && c.Name == "large" {
		of := `device.attributes["` + gpuDriver + `"]`
		c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{
			Expression: Pick(g,
				`"links" in `+of+` && `+of+`.links.includes("a")`,
				`"numa" in `+of+` && `+of+`.numa.includes(0)`,
				`"links" in `+of+` && `+of+`.links.exists(l, l == "c")`,
			),
		}})
	}
}

// listConstraint makes the devices of a claim share a value, or no value. The attribute is never a list: upstream's
// plugin satisfies no constraint over lists.
func (g *Generator) listConstraint(claim *resourcev1.ResourceClaim) {
	if !g.Size.Alpha || !g.Chance(35) {
		return
	}
	attribute := resourcev1.FullyQualifiedName(gpuDriver + "/" + Pick(g, "numa", "model"))
	constraint := resourcev1.DeviceConstraint{MatchAttribute: &attribute}
	if g.Chance(40) {
		constraint = resourcev1.DeviceConstraint{DistinctAttribute: &attribute}
	}
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, constraint)
}

// taintRule draws a rule that taints one device, those of a pool or driver, or seldom all.
func (g *Generator) taintRule(c *Cluster) *resourcev1beta2.DeviceTaintRule {
	name := g.next("rule")
	r := &resourcev1beta2.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	r.Spec.Taint = resourcev1beta2.DeviceTaint{
		Key: Pick(g, "health", "drain"), Value: Pick(g, "", "poor"),
		Effect: Pick(g, resourcev1beta2.DeviceTaintEffectNoSchedule, resourcev1beta2.DeviceTaintEffectNoExecute,
			resourcev1beta2.DeviceTaintEffectNone),
	}
	driver, pool, device := Pick(g, gpuDriver, gpuDriver, networkDriver), g.nodeName(c), Pick(g, "gpu-0", "gpu-1", "nic-0")
	of := &resourcev1beta2.DeviceTaintSelector{}
	switch n := g.IntN(100); {
	case n < 40:
		of.Driver, of.Pool = &driver, &pool
	case n < 70:
		of.Pool, of.Device = &pool, &device
	case n < 85:
		of.Driver, of.Device = &driver, &device
	case n < 95:
		of.Device = &device
	case n < 98:
		of.Driver = &driver
	default:
		of = nil
	}
	r.Spec.DeviceSelector = of
	return r
}

// taintRuleEvent adds, changes or removes a rule.
func (g *Generator) taintRuleEvent(c *Cluster) Event {
	kind := events.KindDeviceTaintRule
	existing := c.Others[kind]
	if len(existing) > 0 && g.Chance(45) {
		return Event{What: string(kind) + " removed", Kind: kind, Old: Pick(g, existing...)}
	}
	e := Event{What: string(kind) + " added", Kind: kind, New: g.taintRule(c)}
	if len(existing) > 0 && g.Chance(40) {
		e.replace(Pick(g, existing...))
	}
	return e.changed()
}
