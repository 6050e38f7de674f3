package nodes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Amount is a quantity as it was written, quoted or not. It is parsed when the description is checked: a decoder that
// met a bad quantity could not report which field it belongs to.
type Amount string

// UnmarshalJSON implements json.Unmarshaler.
func (a *Amount) UnmarshalJSON(raw []byte) error {
	*a = Amount(strings.Trim(string(raw), `"`))
	return nil
}

// quantities are the amounts of a checked description.
func quantities(amounts map[corev1.ResourceName]Amount) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range amounts {
		if quantity, err := resource.ParseQuantity(string(amount)); err == nil {
			list[name] = quantity
		}
	}
	return list
}

func (g Group) validateResources(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if _, ok := g.Capacity[name]; !ok {
			errs = append(errs, field.Required(at.Child("capacity").Key(string(name)), "set on every node"))
		}
	}
	errs = append(errs, validateAmounts(at.Child("capacity"), g.Capacity)...)
	errs = append(errs, validateAmounts(at.Child("allocatable"), g.Allocatable)...)
	if len(errs) > 0 {
		return errs
	}
	capacity, allocatable := quantities(g.Capacity), quantities(g.Allocatable)
	for _, name := range slices.Sorted(maps.Keys(allocatable)) {
		path, use := at.Child("allocatable").Key(string(name)), allocatable[name]
		have, ok := capacity[name]
		switch {
		case !ok:
			errs = append(errs, field.Invalid(path, use.String(), "is not in capacity"))
		case use.Cmp(have) > 0:
			errs = append(errs, field.Invalid(path, use.String(), "is more than the capacity, "+have.String()))
		}
	}
	return errs
}

func validateAmounts(at *field.Path, amounts map[corev1.ResourceName]Amount) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		path, amount := at.Key(string(name)), amounts[name]
		for _, message := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(path, string(name), message))
		}
		quantity, err := resource.ParseQuantity(string(amount))
		if err != nil {
			errs = append(errs, field.Invalid(path, string(amount), `want a quantity such as "8", 500m or 32Gi`))
		} else if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(path, string(amount), "cannot be negative"))
		}
	}
	return errs
}
