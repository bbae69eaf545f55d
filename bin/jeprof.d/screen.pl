# Screen: the terminal, as the verb live uses it: its other screen, keys one by one, plain ANSI
# sequences. Whatever enter() changed is put back by leave(), which may be called at any time and
# twice. Caller: Live.
package Screen;

use POSIX ();

use constant TIOCGWINSZ => 0x5413; # the ioctl for the size, as most machines of Linux number it

my $before; # the modes of the terminal before enter()
my $is_on = 0; # they are changed, or about to be
my $pending = ''; # the beginning of a sequence that keys_typed() has read

# Whether there is a terminal: standard input and output are one, and TERM is set and not dumb.
sub is_there {
	return -t STDIN && -t STDOUT && ($ENV{TERM} // 'dumb') ne 'dumb' ? 1 : 0;
}

# Takes the terminal: no echo, keys one by one, the other screen, no cursor. Does nothing if
# standard input is no terminal. A handler of a signal may call leave() and enter() meanwhile, so
# the modes of before are kept before they change, and never taken from changed ones.
sub enter {
	my ($now, $mode) = map { POSIX::Termios->new } 1, 2;
	return unless $now->getattr(0) && $mode->getattr(0);
	$before = $now unless $is_on;
	$is_on = 1;
	$mode->setlflag($mode->getlflag & ~(POSIX::ECHO() | POSIX::ICANON()));
	$mode->setcc(POSIX::VMIN(), 1);
	$mode->setcc(POSIX::VTIME(), 0);
	$mode->setattr(0, POSIX::TCSADRAIN());
	$pending = '';
	put("\e[?1049h\e[?25l\e[2J");
}

# Puts all of it back.
sub leave {
	return unless $is_on;
	$is_on = 0;
	put("\e[0m\e[?25h\e[?1049l");
	$before->setattr(0, POSIX::TCSADRAIN());
}

# Writes all of a text, and goes on after a signal; at any error, as of a terminal that has gone, it
# drops the rest.
sub put {
	my ($text) = @_;
	while (length $text) {
		my $count = syswrite STDOUT, $text;
		if (defined $count) { substr($text, 0, $count) = '' } elsif (!$!{EINTR}) { return }
	}
}

# (lines, columns) of the terminal: as the kernel says, else LINES and COLUMNS, else 24 and 80.
sub size {
	my $answer = pack 'S4', 0, 0, 0, 0;
	if (ioctl STDOUT, TIOCGWINSZ, $answer) {
		my ($lines, $columns) = unpack 'S4', $answer;
		return ($lines, $columns) if $lines && $columns;
	}
	my @named = map { ($ENV{$_} // '') =~ /^(\d+)$/ && $1 } qw(LINES COLUMNS);
	return ($named[0] || 24, $named[1] || 80);
}

# Draws lines from the top, over what the screen showed before; the rest of the screen is cleared.
# Lines and columns that do not fit are left out. A line is [text, number of an ANSI attribute such
# as 1 (bold) or '']. Each is cleared before it is written: behind a text that fills the line the
# cursor may still be on its last character.
sub draw {
	my @lines = @_;
	my ($height, $width) = size();
	splice @lines, $height if @lines > $height;
	my $text = join "\r\n", map { my ($line, $look) = @$_;
		$line = fitted($line, $width);
		"\e[K" . (length $look ? "\e[${look}m$line\e[0m" : $line) } @lines;
	put("\e[H$text" . (@lines < $height ? "\r\n\e[J" : ''));
}

# The first columns of a line of UTF-8 (each character is taken for one column wide).
sub fitted {
	my ($line, $width) = @_;
	return substr $line, 0, $width unless $line =~ /[\x80-\xff]/ && utf8::decode($line);
	$line = substr $line, 0, $width;
	utf8::encode($line);
	return $line;
}

# Waits for keys and returns them, each byte as a character. Keys that send a sequence, ESC [ or ESC
# O and more, as arrows do, have no meaning here and are left out; the beginning of such a sequence
# waits for its rest. An ESC alone is a key if nothing follows for a tenth of a second. () if a
# signal came, or no whole key; (undef) if the terminal has gone.
sub keys_typed {
	do {
		my $count = sysread STDIN, $pending, 1024, length $pending;
		return $!{EINTR} || $!{EAGAIN} ? () : undef unless defined $count;
		return undef if $count == 0;
	} while ($pending =~ /\e\z/ && more_comes());
	$pending =~ s/\e[\[O][0-9;?]*[ -\/]*[@-~]//g;
	my $rest = $pending =~ s/(\e[\[O][0-9;?]*[ -\/]*)\z// ? $1 : '';
	my @keys = split //, $pending;
	$pending = $rest;
	return @keys;
}

# Whether more bytes come from the terminal within a tenth of a second.
sub more_comes {
	vec(my $want = '', 0, 1) = 1;
	return select($want, undef, undef, 0.1) > 0;
}
