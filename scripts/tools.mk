# The tools: one command each, without the library. Included by the Makefile; config.status has made bin/.
COMPILE_CTL = $(CC) -std=gnu11 -O2 $(WARN) -I$(srcroot)src -I$(srcroot)bin -DLIBRARY_DIR='"$(libdir)"' $(CPPFLAGS) $(CFLAGS)

bin/jeprof: $(wildcard $(srcroot)bin/jeprof.d/*.pl $(srcroot)bin/page/*) $(srcroot)scripts/join-jeprof $(srcroot)scripts/join-page Makefile
	$(call say,JOIN)$(srcroot)scripts/join-jeprof $@ $(release)

# What jeprofctl and jeprofd share. The archive for other programs has one member, whose global names are those of
# bin/client/jeprof_client.h; the tools link the objects.
CLIENT_OBJS := $(CLIENT_SRCS:.c=.o)
$(CLIENT_OBJS): bin/client/%.o: $(srcroot)bin/client/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE_CTL) $(DEPS) -fPIE -c -o $@ $<
-include $(CLIENT_OBJS:.o=.d)
lib/libjeprof_client.a: $(CLIENT_OBJS)
	@mkdir -p $(@D)
	$(call say,AR)rm -f $@ && $(CC) $(CFLAGS) -r -nostdlib -o lib/jeprof_client.o $^ && \
	$(OBJCOPY) --wildcard --keep-global-symbol='jeprof_*' lib/jeprof_client.o && \
	$(AR) crD $@ lib/jeprof_client.o && $(RANLIB) $@ && rm -f lib/jeprof_client.o

bin/jeprofctl: $(wildcard $(srcroot)bin/ctl/*.[ch] $(srcroot)bin/client/*.h) $(CLIENT_OBJS) Makefile
	$(call say,CC)$(COMPILE_CTL) -DJEPROFCTL_VERSION='"$(release)"' $(LDFLAGS) -o $@ $(filter %.c %.o,$^)

# It writes the tables of names that jeprofd reads.
COMPILE_SYMBOLIZE = $(COMPILE_CTL) -D_GNU_SOURCE -I$(srcroot)bin/agent
bin/jeprof-symbolize: $(wildcard $(srcroot)bin/symbolize/*.[ch]) $(addprefix $(srcroot)bin/agent/,intern.c intern.h names/table.c names/table.h)
	$(call say,CC)$(COMPILE_SYMBOLIZE) $(LDFLAGS) -o $@ $(filter %.c,$^) -ldw -lelf -ldl

AGENT_SRCS := $(patsubst $(srcroot)%,%,$(sort $(wildcard $(srcroot)bin/agent/*.c $(srcroot)bin/agent/names/*.c)))
AGENT_OBJS := $(AGENT_SRCS:.c=.o) bin/page_parts.o
COMPILE_AGENT = $(COMPILE_CTL) -D_GNU_SOURCE -I$(srcroot)bin/agent -DJEPROFD_VERSION='"$(release)"' -DHAVE_CURL=$(have_curl) $(DEPS)
$(AGENT_SRCS:.c=.o): bin/agent/%.o: $(srcroot)bin/agent/%.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(COMPILE_AGENT) -fPIE -c -o $@ $<
bin/page_parts.c: $(wildcard $(srcroot)bin/page/*) $(srcroot)scripts/join-page
	@mkdir -p $(@D)
	$(call say,JOIN)$(srcroot)scripts/join-page c >$@
bin/page_parts.o: bin/page_parts.c
	$(call say,CC)$(COMPILE_AGENT) -fPIE -c -o $@ $<
-include $(AGENT_OBJS:.o=.d)
bin/jeprofd: $(AGENT_OBJS) $(CLIENT_OBJS)
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lmicrohttpd -lz $(if $(filter 1,$(have_curl)),-lcurl) -lm -lpthread
