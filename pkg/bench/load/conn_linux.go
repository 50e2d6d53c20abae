package load

import (
	"errors"
	"syscall"
)

// add opens one more connection.
func (p *poller) add() error {
	c := newConn(p.run, nil, p.Paths[len(p.all)%len(p.Paths)])
	if err := p.connect(c); err != nil {
		return err
	}
	p.all = append(p.all, c)
	if p.Rate > 0 {
		p.idle = append(p.idle, c)
	}
	return nil
}

// connect does not wait for the connection: the first write does.
func (p *poller) connect(c *conn) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	if err == nil {
		if err = syscall.Connect(fd, p.to); errors.Is(err, syscall.EINPROGRESS) {
			err = nil
		}
	}
	if err == nil {
		const edge = 1 << 31
		err = syscall.EpollCtl(p.epfd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Fd: int32(fd), Events: syscall.EPOLLIN | syscall.EPOLLOUT | edge})
	}
	if err != nil {
		_ = syscall.Close(fd)
		return err
	}
	c.fd, c.broken = fd, false
	p.fds[fd] = c
	return nil
}

func (c *conn) closeFD() {
	if c.fd >= 0 {
		_ = syscall.Close(c.fd)
	}
	c.fd = -1
}
