package nodes

import (
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Description is a node file.
type Description struct {
	// Groups are created in order; the names of all nodes must differ.
	Groups []Group `json:"groups"`
}

// Group is a number of nodes that are alike but for their names and zones.
type Group struct {
	// Name is the name of a single node. Exactly one of Name and NamePrefix is
	// set.
	Name string `json:"name,omitempty"`
	// NamePrefix is completed by a four-digit number, counted from First.
	NamePrefix string `json:"namePrefix,omitempty"`
	First      int    `json:"first,omitempty"`
	// Count is how many nodes; with Name it may be left out and is 1.
	Count int `json:"count,omitempty"`
	// Region and Zones become the topology labels; zones are dealt round
	// robin. Without them the nodes carry no such label.
	Region string   `json:"region,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Capacity is the node's capacity: cpu, memory and pods at least, extended resources under their full names.
	Capacity map[corev1.ResourceName]Amount `json:"capacity"`
	// Allocatable is the part of the capacity that pods may use. A resource that is left out is allocatable to its
	// full capacity.
	Allocatable map[corev1.ResourceName]Amount `json:"allocatable,omitempty"`
	// Labels, Annotations and Taints are set as they are.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []corev1.Taint    `json:"taints,omitempty"`
	// Unschedulable cordons the nodes from the start.
	Unschedulable bool `json:"unschedulable,omitempty"`
	// Images are reported as present on every node of the group.
	Images []corev1.ContainerImage `json:"images,omitempty"`
}

// decoderPrefix is text about the decoder's internals, not about the mistake.
const decoderPrefix = "error unmarshaling JSON: while decoding JSON: "

// maxNodes is the limit of one group: more is a slip of the keyboard.
const maxNodes = 10000

// Load reads and checks a node file.
func Load(path string) (Description, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Description{}, err
	}
	description, err := Parse(content)
	if err != nil {
		return Description{}, fmt.Errorf("%s: %w", path, err)
	}
	return description, nil
}

// Parse reads and checks the content of a node file.
func Parse(content []byte) (Description, error) {
	var description Description
	if err := yaml.UnmarshalStrict(content, &description); err != nil {
		return Description{}, errors.New(strings.TrimPrefix(err.Error(), decoderPrefix))
	}
	if errs := description.validate(); len(errs) > 0 {
		return Description{}, errs.ToAggregate()
	}
	return description, nil
}

func (d Description) validate() field.ErrorList {
	at := field.NewPath("groups")
	if len(d.Groups) == 0 {
		return field.ErrorList{field.Required(at, "at least one group of nodes")}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, group := range d.Groups {
		groupErrs := group.validate(at.Index(i))
		errs = append(errs, groupErrs...)
		if len(groupErrs) > 0 {
			continue
		}
		for n := range group.count() {
			name := group.nodeName(n)
			if seen[name] {
				errs = append(errs, field.Duplicate(at.Index(i), name))
				break
			}
			seen[name] = true
		}
	}
	return errs
}

func (g Group) validate(at *field.Path) field.ErrorList {
	errs := g.validateNames(at)
	errs = append(errs, g.validateResources(at)...)
	errs = append(errs, metav1validation.ValidateLabels(g.Labels, at.Child("labels"))...)
	for i, zone := range g.Zones {
		if zone == "" {
			errs = append(errs, field.Required(at.Child("zones").Index(i), "a zone's name"))
		}
		for _, message := range validation.IsValidLabelValue(zone) {
			errs = append(errs, field.Invalid(at.Child("zones").Index(i), zone, message))
		}
	}
	for _, message := range validation.IsValidLabelValue(g.Region) {
		errs = append(errs, field.Invalid(at.Child("region"), g.Region, message))
	}
	effects := []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	}
	for i, taint := range g.Taints {
		path := at.Child("taints").Index(i)
		if taint.Key == "" {
			errs = append(errs, field.Required(path.Child("key"), "a taint's key"))
		}
		if taint.Effect != effects[0] && taint.Effect != effects[1] && taint.Effect != effects[2] {
			errs = append(errs, field.NotSupported(path.Child("effect"), taint.Effect, effects))
		}
	}
	return errs
}

func (g Group) validateNames(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case g.Name == "" && g.NamePrefix == "":
		errs = append(errs, field.Required(at.Child("namePrefix"), "set namePrefix, or name for a single node"))
	case g.Name != "" && g.NamePrefix != "":
		errs = append(errs, field.Invalid(at.Child("name"), g.Name, "set either name or namePrefix"))
	case g.Name != "" && (g.Count > 1 || g.First != 0):
		errs = append(errs, field.Invalid(at.Child("name"), g.Name,
			"is for a single node: want namePrefix together with count and first"))
	case g.NamePrefix != "" && (g.Count < 1 || g.Count > maxNodes):
		errs = append(errs, field.Invalid(at.Child("count"), g.Count, fmt.Sprintf("want 1 to %d", maxNodes)))
	}
	if g.Count < 0 || g.First < 0 {
		errs = append(errs, field.Invalid(at.Child("first"), g.First, "count and first cannot be negative"))
	}
	if len(errs) > 0 {
		return errs
	}
	if messages := validation.IsDNS1123Subdomain(g.nodeName(0)); len(messages) > 0 {
		errs = append(errs, field.Invalid(at.Child("namePrefix"), g.nodeName(0), strings.Join(messages, "; ")))
	}
	return errs
}
