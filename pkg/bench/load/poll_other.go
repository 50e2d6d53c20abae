//go:build !linux

package load

import "context"

func (r *run) poll(context.Context) (Result, error, bool) { return Result{}, nil, false }

func (c *conn) closeFD() {}
