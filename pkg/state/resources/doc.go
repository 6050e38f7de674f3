// Package resources has amounts of resources, as pods request them and nodes have them.
package resources
