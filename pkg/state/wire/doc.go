// Package wire reads the protobuf of Kubernetes objects field by field.
package wire
