# Screen: the terminal, as the verb live uses it: its other screen, keys one by one, plain ANSI
# sequences. Whatever was changed is put back by leave, which may be called at any time and twice.
package Screen;

use POSIX ();

use constant TIOCGWINSZ => 0x5413;

my ($before, $is_on, $pending);

# Is there one? Both ends must be the terminal.
sub is_there {
	return -t STDIN && -t STDOUT && ($ENV{TERM} // 'dumb') ne 'dumb' ? 1 : 0;
}

sub enter {
	my $mode = POSIX::Termios->new;
	return unless $mode->getattr(0);
	$before = POSIX::Termios->new;
	$before->getattr(0);
	$mode->setlflag($mode->getlflag & ~(POSIX::ECHO() | POSIX::ICANON()));
	$mode->setcc(POSIX::VMIN(), 1);
	$mode->setcc(POSIX::VTIME(), 0);
	$mode->setattr(0, POSIX::TCSADRAIN());
	$is_on = 1;
	$pending = '';
	put("\e[?1049h\e[?25l\e[2J");
}

sub leave {
	return unless $is_on;
	$is_on = 0;
	put("\e[0m\e[?25h\e[?1049l");
	$before->setattr(0, POSIX::TCSADRAIN());
}

# All of it, whatever signals come; to a terminal that has gone nothing is written.
sub put {
	my ($text) = @_;
	while (length $text) {
		my $count = syswrite STDOUT, $text;
		if (defined $count) { substr($text, 0, $count) = '' } elsif (!$!{EINTR}) { return }
	}
}

# Lines and columns.
sub size {
	my $answer = pack 'S4', 0, 0, 0, 0;
	if (ioctl STDOUT, TIOCGWINSZ, $answer) {
		my ($lines, $columns) = unpack 'S4', $answer;
		return ($lines, $columns) if $lines && $columns;
	}
	my @named = map { ($ENV{$_} // '') =~ /^(\d+)$/ && $1 } qw(LINES COLUMNS);
	return ($named[0] || 24, $named[1] || 80);
}

# Draws the lines from the top; what does not fit is left out, what was there before goes. A line
# is [text, attribute of ANSI or ''].
sub draw {
	my @lines = @_;
	my ($height, $width) = size();
	splice @lines, $height if @lines > $height;
	my $text = join "\r\n", map { my ($line, $look) = @$_;
		$line = fitted($line, $width);
		(length $look ? "\e[${look}m$line\e[0m" : $line) . "\e[K" } @lines;
	put("\e[H$text" . (@lines < $height ? "\e[J" : ''));
}

# The first columns of a line of UTF-8 (each character is taken for one column wide).
sub fitted {
	my ($line, $width) = @_;
	return substr $line, 0, $width unless $line =~ /[\x80-\xff]/ && utf8::decode($line);
	$line = substr $line, 0, $width;
	utf8::encode($line);
	return $line;
}

# The keys that were typed, each as its character; those that send a sequence have no meaning here.
# undef: the terminal has gone.
sub keys_typed {
	my $count = sysread STDIN, $pending, 1024, length $pending;
	return $!{EINTR} || $!{EAGAIN} ? () : undef unless defined $count;
	return undef if $count == 0;
	$pending =~ s/\e[\[O][0-9;?]*[ -\/]*[@-~]//g;
	my @keys = split //, $pending;
	$pending = '';
	return @keys;
}
