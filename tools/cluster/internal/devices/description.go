package devices

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

const (
	// AnnotationDevices, after the driver's name and a slash, lists a node's devices and their
	// models, as in "gpu-0=large gpu-1=small".
	AnnotationDevices = "devices"
	// AnnotationTaints, after the driver's name and a slash, lists devices that are tainted and
	// the effect, as in "gpu-0=NoSchedule". The taint's key is TaintUnhealthy.
	AnnotationTaints = "taints"
	// AttributeModel is the attribute of every device that holds its model.
	AttributeModel = "model"
	// TaintUnhealthy, after the driver's name and a slash, is the key of every taint.
	TaintUnhealthy = "unhealthy"
)

// describe reads which devices a node has; none if it has no such annotation.
func describe(driver string, node *corev1.Node) ([]resourcev1.Device, error) {
	models, err := pairs(node, driver+"/"+AnnotationDevices)
	if err != nil {
		return nil, err
	}
	effects, err := pairs(node, driver+"/"+AnnotationTaints)
	if err != nil {
		return nil, err
	}
	var devices []resourcev1.Device
	for _, p := range models {
		device := resourcev1.Device{
			Name: p[0],
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				AttributeModel: {StringValue: &p[1]},
			},
		}
		for _, e := range effects {
			if e[0] == device.Name {
				device.Taints = append(device.Taints, resourcev1.DeviceTaint{
					Key: driver + "/" + TaintUnhealthy, Effect: resourcev1.DeviceTaintEffect(e[1]),
				})
			}
		}
		devices = append(devices, device)
	}
	return devices, nil
}

// pairs splits an annotation into its "name=value", separated by white space.
func pairs(node *corev1.Node, annotation string) ([][2]string, error) {
	var found [][2]string
	for field := range strings.FieldsSeq(node.Annotations[annotation]) {
		name, value, ok := strings.Cut(field, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("node %s: annotation %s: %q: want NAME=VALUE",
				node.Name, annotation, field)
		}
		found = append(found, [2]string{name, value})
	}
	return found, nil
}
